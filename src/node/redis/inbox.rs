//! What a server says unasked, as far as it was asked for.

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

use super::intake::Intake;
use crate::{
    mutex,
    values::{NodeError, Resource},
};

/// Where pushes end: of each channel that somebody listens to, one notice waits at most, and
/// everything else is dropped unread. So a server that pushes without an end fills no memory, even
/// if nobody reads its connection.
#[derive(Debug)]
pub(super) struct Inbox(Arc<SharedInbox>);

/// The other end, for the redis crate. It is dropped with the connection, if not before.
pub(super) struct Outlet(Arc<SharedInbox>);

/// What has come in.
#[derive(Debug, Default)]
pub(super) struct Mail {
    /// The resources that were released.
    pub(super) released: BTreeSet<Resource>,
    /// Set when nothing more will come.
    pub(super) has_ended: bool,
    /// What the server should not have sent.
    pub(super) error: Option<NodeError>,
}

#[derive(Debug)]
struct SharedInbox {
    state: Mutex<InboxState>,
    reader: AtomicWaker,
    intake: Arc<Intake>,
}

#[derive(Debug, Default)]
struct InboxState {
    channels: HashMap<Vec<u8>, Resource>,
    /// The channels of the command that is under way, as far as they are not confirmed.
    unconfirmed: Vec<Vec<u8>>,
    mail: Mail,
}

impl Inbox {
    pub(super) fn new(intake: &Arc<Intake>) -> (Self, Outlet) {
        let shared =
            SharedInbox { state: Mutex::default(), reader: AtomicWaker::new(), intake: Arc::clone(intake) };
        let shared = Arc::new(shared);
        (Self(Arc::clone(&shared)), Outlet(shared))
    }

    /// Keeps the notices of a channel from now on.
    pub(super) fn listen(&self, channel: Vec<u8>, resource: Resource) {
        mutex::lock(&self.0.state).channels.insert(channel, resource);
    }

    pub(super) fn ignore(&self, channel: &[u8]) {
        mutex::lock(&self.0.state).channels.remove(channel);
    }

    /// The server is asked to confirm that these channels are subscribed to, or not any more. None
    /// are left when it has answered.
    pub(super) fn expect(&self, channels: Vec<Vec<u8>>) {
        mutex::lock(&self.0.state).unconfirmed = channels;
    }

    /// Takes what has come in, and wakes the task of `context` when there is more.
    pub(super) fn take(&self, context: &Context<'_>) -> Mail {
        self.0.reader.register(context.waker());
        std::mem::take(&mut mutex::lock(&self.0.state).mail)
    }
}

impl InboxState {
    /// Whether this is any news to the reader.
    fn receive(&mut self, push: &PushInfo) -> bool {
        let channel = match &*push.data {
            [Value::BulkString(channel), ..] => &**channel,
            _ => &[],
        };
        match push.kind {
            PushKind::Message => {
                let Some(resource) = self.channels.get(channel) else { return false };
                self.mail.released.insert(resource.clone());
                true
            }
            PushKind::Disconnection => {
                self.mail.has_ended = true;
                true
            }
            // The redis crate keeps the name of every channel that is confirmed.
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
                let why = "a subscription was confirmed that nobody asked for";
                self.mail.error = Some(NodeError::Protocol(why.into()));
                true
            }
            _ => false,
        }
    }
}

impl AsyncPushSender for Outlet {
    fn send(&self, push: PushInfo) -> Result<(), SendError> {
        if mutex::lock(&self.0.state).receive(&push) {
            self.0.intake.heard();
            self.0.reader.wake();
        }
        Ok(())
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        mutex::lock(&self.0.state).mail.has_ended = true;
        self.0.reader.wake();
    }
}

impl fmt::Debug for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Outlet").finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scene {
        inbox: Inbox,
        outlet: Outlet,
    }

    impl Scene {
        fn new() -> Self {
            let (inbox, outlet) = Inbox::new(&Arc::new(Intake::new()));
            Self { inbox, outlet }
        }

        fn push(&self, kind: PushKind, channel: &str) {
            let data = vec![Value::BulkString(channel.into()), Value::BulkString(b"0".into())];
            self.outlet.send(PushInfo { kind, data }).unwrap();
        }

        fn mail(&self) -> Mail {
            self.inbox.take(&Context::from_waker(std::task::Waker::noop()))
        }
    }

    fn resource(name: &str) -> Resource {
        Resource::new(name).unwrap()
    }

    #[test]
    fn of_each_channel_one_notice_waits_and_of_others_none() {
        let scene = Scene::new();
        for name in ["a", "b"] {
            scene.inbox.listen(name.into(), resource(name));
        }
        for _ in 0..10_000 {
            for channel in ["b", "a", "other"] {
                scene.push(PushKind::Message, channel);
            }
            scene.push(PushKind::Invalidate, "a");
        }
        let released: Vec<_> = scene.mail().released.into_iter().collect();
        assert_eq!(released, [resource("a"), resource("b")]);
        assert!(scene.mail().released.is_empty());
        scene.inbox.ignore(b"a");
        scene.push(PushKind::Message, "a");
        assert!(scene.mail().released.is_empty());
    }

    #[test]
    fn a_confirmation_that_nobody_asked_for_is_a_violation() {
        let scene = Scene::new();
        scene.inbox.expect(vec![b"a".into(), b"b".into()]);
        for channel in ["b", "a"] {
            scene.push(PushKind::Subscribe, channel);
            assert_eq!(scene.mail().error, None);
        }
        for (kind, channel) in [(PushKind::Subscribe, "a"), (PushKind::PSubscribe, "c")] {
            scene.push(kind, channel);
            assert!(matches!(scene.mail().error, Some(NodeError::Protocol(_))));
        }
        scene.inbox.expect(vec![b"a".into()]);
        scene.inbox.expect(Vec::new());
        scene.push(PushKind::Unsubscribe, "a");
        assert!(
            matches!(scene.mail().error, Some(NodeError::Protocol(_))),
            "the command was answered before"
        );
    }

    #[test]
    fn the_end_of_the_connection_is_told_even_if_its_task_is_gone_without_a_word() {
        let scene = Scene::new();
        assert!(!scene.mail().has_ended);
        let Scene { inbox, outlet } = scene;
        drop(outlet);
        assert!(inbox.take(&Context::from_waker(std::task::Waker::noop())).has_ended);
    }
}
