//! The pushes of a server. Release notices of subscribed resources are buffered, and other pushes are dropped.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    sync::{Arc, Mutex},
    task::Context,
};

use futures::task::AtomicWaker;
use redis::{
    PushInfo, PushKind, Value,
    aio::{AsyncPushSender, SendError},
};

use super::read_budget::ReadBudget;
use crate::{
    mutex,
    values::{NodeError, Resource},
};

/// The receiving end of a connection's pushes. At most one notice waits for each channel that has a listener, and all
/// other pushes are dropped unread. Therefore a server that pushes without end does not fill the memory, even if no
/// task takes the pushes.
#[derive(Debug)]
pub(super) struct PushReceiver {
    shared: Arc<SharedPushes>,
    /// Whether the connection has a sentry.
    has_sentry: bool,
}

/// The sending end, which belongs to the redis crate. The crate drops this end with the connection at the latest.
pub(super) struct PushSender(Arc<SharedPushes>);

/// The pushes that were received and not taken.
#[derive(Debug, Default)]
pub(super) struct PushBuffer {
    /// The resources that were released.
    pub(super) released: BTreeSet<Resource>,
    /// Whether the connection sends no more pushes.
    pub(super) has_ended: bool,
    /// The error of a push that violates the protocol.
    pub(super) error: Option<NodeError>,
}

#[derive(Debug)]
struct SharedPushes {
    state: Mutex<PushState>,
    reader: AtomicWaker,
    budget: Arc<ReadBudget>,
}

#[derive(Debug, Default)]
struct PushState {
    /// The channels that have a listener.
    channels: HashMap<Vec<u8>, Resource>,
    /// The unconfirmed channels of the subscription command in flight.
    unconfirmed: Vec<Vec<u8>>,
    /// The channel of the sentry, if the server is part of a cluster.
    sentry: Option<Vec<u8>>,
    is_sentry_lost: bool,
    buffer: PushBuffer,
}

impl PushReceiver {
    pub(super) fn new(budget: &Arc<ReadBudget>) -> (Self, PushSender) {
        let shared =
            SharedPushes { state: Mutex::default(), reader: AtomicWaker::new(), budget: Arc::clone(budget) };
        let shared = Arc::new(shared);
        (Self { shared: Arc::clone(&shared), has_sentry: false }, PushSender(shared))
    }

    /// Records the notices of a channel from now on.
    pub(super) fn listen(&self, channel: Vec<u8>, resource: Resource) {
        mutex::lock(&self.shared.state).channels.insert(channel, resource);
    }

    pub(super) fn ignore(&self, channel: &[u8]) {
        mutex::lock(&self.shared.state).channels.remove(channel);
    }

    /// Sets the channels that the server must confirm as subscribed or unsubscribed. Each confirmation removes its
    /// channel, so no channel is left when the server has answered.
    pub(super) fn expect(&self, channels: Vec<Vec<u8>>) {
        mutex::lock(&self.shared.state).unconfirmed = channels;
    }

    /// Sets the sharded channel of the sentry: if the server ends this subscription, the server has lost the slot. The
    /// server must confirm the subscription next.
    pub(super) fn expect_sentry(&mut self, channel: Vec<u8>) {
        self.has_sentry = true;
        let mut state = mutex::lock(&self.shared.state);
        state.unconfirmed = vec![channel.clone()];
        state.sentry = Some(channel);
    }

    /// Returns the error of a server that has lost the slot; `None` if the sentry lasts, or there is none.
    pub(super) fn sentry_error(&self) -> Option<NodeError> {
        if !self.has_sentry {
            return None;
        }
        let is_lost = mutex::lock(&self.shared.state).is_sentry_lost;
        is_lost.then(|| NodeError::NoSlotMaster("the server is no longer the master of the slot".into()))
    }

    /// Takes the received pushes, and registers the task of `context` for the next one.
    pub(super) fn take(&self, context: &Context<'_>) -> PushBuffer {
        self.shared.reader.register(context.waker());
        std::mem::take(&mut mutex::lock(&self.shared.state).buffer)
    }
}

impl PushState {
    /// Records a push. Returns whether the reader has to be woken.
    fn receive(&mut self, push: &PushInfo) -> bool {
        let channel = match &*push.data {
            [Value::BulkString(channel), ..] => &**channel,
            _ => &[],
        };
        match push.kind {
            PushKind::Message => {
                let Some(resource) = self.channels.get(channel) else { return false };
                self.buffer.released.insert(resource.clone());
                true
            }
            PushKind::Disconnection => {
                self.buffer.has_ended = true;
                true
            }
            PushKind::SUnsubscribe if self.sentry.as_deref() == Some(channel) => {
                self.is_sentry_lost = true;
                true
            }
            // The redis crate keeps the name of every confirmed channel, so a server could fill the memory by
            // confirmations that were not requested.
            PushKind::Subscribe
            | PushKind::Unsubscribe
            | PushKind::PSubscribe
            | PushKind::PUnsubscribe
            | PushKind::SSubscribe
            | PushKind::SUnsubscribe => {
                let position = self.unconfirmed.iter().position(|unconfirmed| unconfirmed == channel);
                if let Some(position) = position {
                    self.unconfirmed.swap_remove(position);
                    return false;
                }
                let why = "the server confirmed a subscription that was not requested";
                self.buffer.error = Some(NodeError::Protocol(why.into()));
                true
            }
            _ => false,
        }
    }
}

impl AsyncPushSender for PushSender {
    fn send(&self, push: PushInfo) -> Result<(), SendError> {
        if mutex::lock(&self.0.state).receive(&push) {
            self.0.budget.reset();
            self.0.reader.wake();
        }
        Ok(())
    }
}

impl Drop for PushSender {
    fn drop(&mut self) {
        mutex::lock(&self.0.state).buffer.has_ended = true;
        self.0.reader.wake();
    }
}

impl fmt::Debug for PushSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PushSender").finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fixture {
        pushes: PushReceiver,
        sender: PushSender,
    }

    impl Fixture {
        fn new() -> Self {
            let (pushes, sender) = PushReceiver::new(&Arc::new(ReadBudget::new()));
            Self { pushes, sender }
        }

        fn push(&self, kind: PushKind, channel: &str) {
            let data = vec![Value::BulkString(channel.into()), Value::BulkString(b"0".into())];
            self.sender.send(PushInfo { kind, data }).unwrap();
        }

        fn buffer(&self) -> PushBuffer {
            self.pushes.take(&Context::from_waker(std::task::Waker::noop()))
        }
    }

    fn resource(name: &str) -> Resource {
        Resource::new(name).unwrap()
    }

    #[test]
    fn repeated_notices_of_a_channel_are_buffered_once_and_other_pushes_are_dropped() {
        let fixture = Fixture::new();
        for name in ["a", "b"] {
            fixture.pushes.listen(name.into(), resource(name));
        }
        for _ in 0..10_000 {
            for channel in ["b", "a", "other"] {
                fixture.push(PushKind::Message, channel);
            }
            fixture.push(PushKind::Invalidate, "a");
        }
        let released: Vec<_> = fixture.buffer().released.into_iter().collect();
        assert_eq!(released, [resource("a"), resource("b")]);
        assert!(fixture.buffer().released.is_empty());
        fixture.pushes.ignore(b"a");
        fixture.push(PushKind::Message, "a");
        assert!(fixture.buffer().released.is_empty());
    }

    #[test]
    fn an_unexpected_confirmation_is_a_protocol_violation() {
        let fixture = Fixture::new();
        fixture.pushes.expect(vec![b"a".into(), b"b".into()]);
        for channel in ["b", "a"] {
            fixture.push(PushKind::Subscribe, channel);
            assert_eq!(fixture.buffer().error, None);
        }
        for (kind, channel) in [(PushKind::Subscribe, "a"), (PushKind::PSubscribe, "c")] {
            fixture.push(kind, channel);
            assert!(matches!(fixture.buffer().error, Some(NodeError::Protocol(_))));
        }
        fixture.pushes.expect(vec![b"a".into()]);
        fixture.pushes.expect(Vec::new());
        fixture.push(PushKind::Unsubscribe, "a");
        assert!(
            matches!(fixture.buffer().error, Some(NodeError::Protocol(_))),
            "all expected confirmations have arrived before"
        );
    }

    #[test]
    fn the_end_of_the_sentry_is_recorded_for_good() {
        let mut fixture = Fixture::new();
        assert_eq!(fixture.pushes.sentry_error(), None);
        fixture.pushes.expect_sentry(b"sentry".into());
        for (kind, is_lost) in [
            (PushKind::SSubscribe, false),
            (PushKind::SMessage, false),
            (PushKind::SUnsubscribe, true),
            (PushKind::SSubscribe, true),
        ] {
            fixture.push(kind.clone(), "sentry");
            assert_eq!(fixture.pushes.sentry_error().is_some(), is_lost, "{kind:?}");
        }
    }

    #[test]
    fn a_dropped_sender_reports_the_end_of_the_connection() {
        let fixture = Fixture::new();
        assert!(!fixture.buffer().has_ended);
        let Fixture { pushes, sender } = fixture;
        drop(sender);
        assert!(pushes.take(&Context::from_waker(std::task::Waker::noop())).has_ended);
    }
}
