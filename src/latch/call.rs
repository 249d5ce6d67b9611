//! One call to a latch: what nodes are asked and told, again and again.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::latch::{LatchAnswer, LatchView},
    client::{asking::ask_operation, environment::Environment, fanout::Heard, wake::Wake},
    clock::Instant,
    config::CheckedLock,
    error::LatchError,
    node::{self, Answer, Operation, Subscription, names},
    values::{Arrivals, NodeError, Resource, Vote},
};

/// Once a quorum has answered, the others are waited for no longer than this part of a node timeout.
const GRACE_SHARE: u32 = 8;

/// One call: the settings, and what it knows.
pub(super) struct LatchCall<'a> {
    environment: &'a Environment,
    latch: Resource,
    count: u32,
    kept_for: Duration,
    settings: CheckedLock,
    pub(super) view: LatchView,
    /// What each node has said last.
    votes: Vec<Vote>,
    /// How often no quorum could be asked, in a row, and since when.
    failures: u32,
    failing_since: Option<Instant>,
}

impl<'a> LatchCall<'a> {
    pub(super) fn new(
        environment: &'a Environment,
        latch: Resource,
        count: u32,
        kept_for: Duration,
        settings: CheckedLock,
        arrivals: Arrivals,
    ) -> Self {
        let view = LatchView::new(environment.settings.electorate, count as usize, arrivals);
        let votes = vec![Vote::NotAsked; environment.nodes.len()];
        let (failures, failing_since) = (0, None);
        Self { environment, latch, count, kept_for, settings, view, votes, failures, failing_since }
    }

    /// Tells every node what is known, and hears what they know: until that is enough, or all have
    /// answered, or a quorum has and nobody else for a while.
    pub(super) async fn ask(&mut self, is_enough: impl Fn(&LatchView) -> bool) -> Result<(), LatchError> {
        let environment = self.environment;
        let begun = environment.now();
        let node_timeout = self.settings.rules.node_timeout;
        let mut deadline = begun + node_timeout;
        let told = self.told();
        self.view.asks();
        self.votes.fill(Vote::Unknown(NodeError::TimedOut));
        let mut asked = ask_operation(environment, Operation::Latch(told), deadline);
        while !self.view.is_heard_out() && !is_enough(&self.view) {
            let Heard::Answer { node, answer, .. } = asked.next(&*environment.clock, deadline).await else {
                break;
            };
            if let Some(vote) = self.votes.get_mut(node) {
                *vote = Vote::from(&answer);
            }
            let was_kept = self.view.is_kept();
            self.view.hears(node, said(answer));
            if self.view.is_kept() && !was_kept {
                deadline = deadline.min(environment.now() + node_timeout / GRACE_SHARE);
            }
        }
        if self.view.is_kept() {
            (self.failures, self.failing_since) = (0, None);
        } else {
            self.failing_since.get_or_insert(begun);
        }
        match self.view.other_count() {
            Some(recorded) => {
                Err(LatchError::OtherCount { latch: self.latch.clone(), given: self.count, recorded })
            }
            None => Ok(()),
        }
    }

    fn told(&self) -> node::Latch {
        node::Latch {
            latch: self.latch.clone(),
            count: self.count,
            is_open: self.view.is_open(),
            arrivals: self.view.untold(),
            ttl: self.kept_for,
        }
    }

    /// Tells all nodes that it is open, if one did not know; nobody waits for that.
    pub(super) fn spread(&self) {
        if self.view.is_unknown_to_some() {
            let deadline = self.environment.now() + self.settings.rules.node_timeout;
            drop(ask_operation(self.environment, Operation::Latch(self.told()), deadline));
        }
    }

    /// Asks again and again until a quorum knows that it is open.
    pub(super) async fn until_open(&mut self) -> Result<(), LatchError> {
        let wake = Arc::new(Wake::default());
        let topic = names::latch(&self.latch);
        let nodes = self.environment.nodes.iter();
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
            let environment = self.environment;
            // Whatever is told, there is a delay between rounds.
            environment.clock.sleep_until(environment.now() + pacing.floor).await;
            let poll_at = environment.now() + poll.mul_f64(0.5 + environment.jitter());
            tokio::select! {
                biased;
                () = wake.0.notified() => {}
                () = environment.clock.sleep_until(poll_at) => {
                    poll = poll.saturating_mul(2).min(pacing.longest_poll);
                }
            }
        }
    }

    /// A delay that doubles up to the first poll; or the error, if it has been so for the quorum
    /// timeout.
    pub(super) async fn pause_without_quorum(&mut self) -> Result<(), LatchError> {
        let environment = self.environment;
        let pacing = self.settings.pacing;
        let now = environment.now();
        let end = self.failing_since.map(|since| since + self.settings.quorum_timeout);
        if end.is_some_and(|end| end <= now) {
            return Err(self.no_quorum());
        }
        let at = now + pacing.delay_after(self.failures, environment.jitter());
        self.failures += 1;
        environment.clock.sleep_until(end.map_or(at, |end| end.min(at))).await;
        Ok(())
    }

    /// Why there is none: because of another count, if any node has told that.
    pub(super) fn no_quorum(&self) -> LatchError {
        if let Some(recorded) = self.view.some_other_count() {
            return LatchError::OtherCount { latch: self.latch.clone(), given: self.count, recorded };
        }
        LatchError::NoQuorum {
            latch: self.latch.clone(),
            needed: self.environment.settings.electorate.needed(),
            votes: self.environment.votes(self.votes.iter().cloned()),
        }
    }

    /// What it came to when the time to wait was over.
    pub(super) fn timed_out(&self, waited: Duration) -> LatchError {
        if self.failing_since.is_some() {
            return self.no_quorum();
        }
        let (latch, arrived, count) = (self.latch.clone(), self.arrived(), self.count);
        LatchError::TimedOut { latch, arrived, count, waited }
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
