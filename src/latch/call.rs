//! One call to a latch: what nodes are asked and told, again and again.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::latch::{LatchAnswer, LatchView},
    client::{broadcast::send_to_all, context::ClientContext, fanout::FanoutEvent, wake::Wake},
    clock::Instant,
    config::CheckedLock,
    error::{ConfigError, Error, Goal, NoQuorum},
    node::{self, Answer, Operation, Subscription, names},
    values::{Arrivals, NodeError, NodeReply, Resource},
};

/// Once a quorum has answered, the others are waited for no longer than this part of a node timeout.
const GRACE_SHARE: u32 = 8;

/// One call: the settings, and what it knows.
pub(super) struct LatchCall<'a> {
    context: &'a ClientContext,
    latch: Resource,
    count: u32,
    retention: Duration,
    settings: CheckedLock,
    pub(super) view: LatchView,
    /// What each node has said last.
    votes: Vec<NodeReply>,
    /// The number of rounds without a quorum, since the last round with one.
    failures: u32,
    /// The begin of the first of these rounds, or of the call; `None` after a round with a quorum.
    failing_since: Option<Instant>,
}

impl<'a> LatchCall<'a> {
    pub(super) fn new(
        context: &'a ClientContext,
        latch: Resource,
        count: u32,
        retention: Duration,
        settings: CheckedLock,
        arrivals: Arrivals,
    ) -> Self {
        let view = LatchView::new(context.settings.electorate, count as usize, arrivals);
        let votes = vec![NodeReply::NotAsked; context.nodes.len()];
        let (failures, failing_since) = (0, Some(context.now()));
        Self { context, latch, count, retention, settings, view, votes, failures, failing_since }
    }

    /// Tells every node what is known, and hears what they know: until that is enough, or all have
    /// answered, or a quorum has and nobody else for a while.
    pub(super) async fn ask(&mut self, is_enough: impl Fn(&LatchView) -> bool) -> Result<(), Error> {
        let context = self.context;
        let begun = context.now();
        let node_timeout = self.settings.rules.node_timeout;
        let mut deadline = begun + node_timeout;
        let told = self.told();
        self.view.asks();
        self.votes.fill(NodeReply::Failed(NodeError::TimedOut));
        let mut asked = send_to_all(context, Operation::Latch(told), deadline);
        while !self.view.is_heard_out() && !is_enough(&self.view) {
            let FanoutEvent::Answer { node, answer, .. } = asked.next(&*context.clock, deadline).await else {
                break;
            };
            if let Some(vote) = self.votes.get_mut(node) {
                *vote = NodeReply::from(&answer);
            }
            let was_kept = self.view.is_kept();
            self.view.hears(node, said(answer));
            if self.view.is_kept() && !was_kept {
                deadline = deadline.min(context.now() + node_timeout / GRACE_SHARE);
            }
        }
        if self.view.is_kept() {
            (self.failures, self.failing_since) = (0, None);
        } else {
            self.failing_since.get_or_insert(begun);
        }
        match self.view.other_count() {
            Some(recorded) => Err(self.count_mismatch(recorded)),
            None => Ok(()),
        }
    }

    fn told(&self) -> node::Latch {
        node::Latch {
            latch: self.latch.clone(),
            count: self.count,
            is_open: self.view.is_open(),
            arrivals: self.view.untold(),
            ttl: self.retention,
        }
    }

    /// Tells all nodes that it is open, if one did not know; nobody waits for that.
    pub(super) fn spread(&self) {
        if self.view.is_unknown_to_some() {
            let deadline = self.context.now() + self.settings.rules.node_timeout;
            drop(send_to_all(self.context, Operation::Latch(self.told()), deadline));
        }
    }

    /// Asks again and again until a quorum knows that it is open.
    pub(super) async fn until_open(&mut self) -> Result<(), Error> {
        let wake = Arc::new(Wake::default());
        let topic = names::latch(&self.latch);
        let nodes = self.context.nodes.iter();
        let _subscriptions: Vec<Subscription> =
            nodes.map(|node| node.subscribe(&topic, Arc::clone(&wake) as _)).collect();
        let pacing = self.settings.pacing;
        let mut poll = pacing.first_poll;
        loop {
            self.ask(|view| view.is_known_open() || view.has_news()).await?;
            if self.view.is_known_open() {
                self.spread();
                return Ok(());
            }
            if self.view.has_news() {
                continue;
            }
            if !self.view.is_kept() {
                self.pause_without_quorum().await?;
                continue;
            }
            let context = self.context;
            // Whatever is told, there is a delay between rounds.
            context.clock.sleep_until(context.now() + pacing.floor).await;
            let poll_at = context.now() + poll.mul_f64(0.5 + context.jitter());
            tokio::select! {
                biased;
                () = wake.0.notified() => {}
                () = context.clock.sleep_until(poll_at) => {
                    poll = poll.saturating_mul(2).min(pacing.longest_poll);
                }
            }
        }
    }

    /// A delay that doubles up to the first poll; or the error, if it has been so for the quorum
    /// timeout.
    pub(super) async fn pause_without_quorum(&mut self) -> Result<(), Error> {
        let context = self.context;
        let pacing = self.settings.pacing;
        let now = context.now();
        let end = self.failing_since.map(|since| since + self.settings.quorum_timeout);
        if end.is_some_and(|end| end <= now) {
            return Err(self.no_quorum());
        }
        let at = now + pacing.delay_after(self.failures, context.jitter());
        self.failures += 1;
        context.clock.sleep_until(end.map_or(at, |end| end.min(at))).await;
        Ok(())
    }

    /// The lack of a quorum; or another number of arrivals, if any node has recorded that.
    pub(super) fn no_quorum(&self) -> Error {
        if let Some(recorded) = self.view.some_other_count() {
            return self.count_mismatch(recorded);
        }
        let replies = self.context.replies(self.votes.iter().cloned());
        NoQuorum::new(Goal::Latch(self.latch.clone()), replies).into()
    }

    fn count_mismatch(&self, recorded: u32) -> Error {
        ConfigError::CountMismatch { latch: self.latch.clone(), given: self.count, recorded }.into()
    }

    /// Whether the last round had no quorum, or no round has ended.
    pub(super) fn is_without_quorum(&self) -> bool {
        self.failing_since.is_some()
    }

    pub(super) fn arrived(&self) -> u32 {
        u32::try_from(self.view.arrived()).unwrap_or(u32::MAX)
    }
}

/// What a node has answered, to the pure part.
fn said(answer: Answer) -> LatchAnswer {
    match answer {
        Answer::Open => LatchAnswer::Open,
        Answer::Arrived(arrivals) => LatchAnswer::Arrived(arrivals),
        Answer::OtherCount(count) => LatchAnswer::OtherCount(count),
        _ => LatchAnswer::Nothing,
    }
}
