//! Being told that others unlock by force what this client holds.

use std::{sync::Arc, time::Duration};

use tokio::sync::{Notify, futures::Notified};

use crate::{
    client::context::ClientContext,
    clock::Instant,
    node::{Listener, Notice, Subscription, names},
};

/// The first delay of an answer after another one.
const FIRST_DELAY: Duration = Duration::from_millis(1);

/// Each delay is so many times the one before. With it, a flood is answered seven times within the
/// first second at the default ttl, and then twice a second.
const GROWTH: u32 = 4;

/// Hears of leases of this client that were unlocked by force. What it hears is a hint: the nodes are
/// asked then, and they alone end a lease.
#[derive(Debug, Default)]
pub(super) struct Forced(Notify);

impl Forced {
    /// Ready when a node has told of one, since the last call or during it.
    pub(super) fn told(&self) -> Notified<'_> {
        self.0.notified()
    }
}

impl Listener for Forced {
    /// What was told before a subscription began shows at the next renewal: to ask at once would cost
    /// every first lock a renewal.
    fn notice(&self, notice: Notice) {
        if notice == Notice::Released {
            self.0.notify_one();
        }
    }
}

/// When the next notice may be answered, which costs a renewal of everything at every node: anybody
/// who may publish could demand that without end.
///
/// After quiet it is at once. Each of the nodes gives notice of one force, one by one, and the first
/// may come before the others have unlocked anything. So the delays begin short, and grow while the
/// notices go on: an answer comes hardly later than the burst is old, and no later than the longest
/// delay.
///
/// # Invariants
///
/// 1. No notice waits for longer than the longest delay.
/// 2. Answers that follow one another at once are as many as delays fit into the time, and the
///    delays grow up to the longest.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    not_before: Instant,
    delay: Duration,
    longest: Duration,
}

impl Pace {
    pub(super) fn new(now: Instant, longest: Duration) -> Self {
        Self { not_before: now, delay: Duration::ZERO, longest }
    }

    /// Until when notices wait.
    pub(super) fn not_before(&self) -> Instant {
        self.not_before
    }

    /// A notice is answered now.
    pub(super) fn answer(&mut self, now: Instant) {
        let is_quiet = now.saturating_duration_since(self.not_before) > self.delay;
        let next = if is_quiet { FIRST_DELAY } else { self.delay.saturating_mul(GROWTH).max(FIRST_DELAY) };
        self.delay = next.min(self.longest);
        self.not_before = now + self.delay;
    }
}

/// Listens at all nodes for as long as what is returned lives.
pub(super) fn listen(context: &ClientContext, forced: &Arc<Forced>) -> Vec<Subscription> {
    let topic = names::forced(context.owners.name());
    let nodes = context.nodes.iter();
    nodes.map(|node| node.subscribe(&topic, Arc::clone(forced) as _)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_origin(Duration::from_millis(millis))
    }

    #[test]
    fn the_delays_of_a_flood_grow_up_to_the_longest_and_begin_anew_after_quiet() {
        let mut pace = Pace::new(at(0), Duration::from_millis(500));
        let mut flood = |from: u64, answers: usize| -> Vec<u64> {
            let mut now = at(from);
            let answered = (0..answers).map(|_| {
                now = now.max(pace.not_before());
                pace.answer(now);
                u64::try_from(now.since_origin().as_millis()).unwrap() - from
            });
            answered.collect()
        };
        assert_eq!(flood(0, 8), [0, 1, 5, 21, 85, 341, 841, 1341]);
        assert_eq!(flood(2_342, 4), [0, 1, 5, 21]);
        assert_eq!(flood(2_342 + 21 + 64 + 64, 3), [0, 256, 756], "not yet quiet");
    }
}
