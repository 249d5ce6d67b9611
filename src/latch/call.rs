//! One call on a latch: rounds in which the client sends its arrivals to the nodes, and merges the arrivals in the
//! answers.

use std::{sync::Arc, time::Duration};

use crate::{
    algorithm::latch::{LatchAnswer, LatchView},
    client::{
        broadcast::send_to_all, context::ClientContext, fanout::FanoutEvent, notice_waker::NoticeWaker,
    },
    clock::Instant,
    config::CheckedLock,
    error::{ConfigError, Error, Goal, NoQuorum},
    node::{self, Answer, Operation, Subscription, names},
    values::{Arrivals, NodeError, NodeReply, Resource},
};

/// The divisor of the node timeout in the time for which a round waits for the remaining nodes after a quorum has
/// answered.
const GRACE_SHARE: u32 = 8;

/// One call: the settings, and the arrivals and answers until now.
pub(super) struct LatchCall<'a> {
    context: &'a ClientContext,
    latch: Resource,
    count: u32,
    retention: Duration,
    settings: CheckedLock,
    pub(super) view: LatchView,
    /// The last reply of each node.
    votes: Vec<NodeReply>,
    failures: LatchFailures,
}

/// The consecutive rounds without a quorum, up to the latest round.
struct LatchFailures {
    /// The number of pauses after these rounds.
    pauses: u32,
    /// The start of the first of these rounds, or of the call; `None` after a round with a quorum.
    since: Option<Instant>,
    /// The end, as reported by the nodes, of the quarantines that left the last of these rounds without a quorum.
    quarantined_until: Option<Instant>,
    /// Whether the client stood still during the last of these rounds, so that the round does not show the state of the
    /// nodes.
    has_stood_still: bool,
}

impl LatchFailures {
    fn none(since: Option<Instant>) -> Self {
        Self { pauses: 0, since, quarantined_until: None, has_stood_still: false }
    }

    /// Returns the time by which a round must have a quorum, as for a lock: the end of the quorum timeout, or the end
    /// of the quarantines if that is later. Returns `None` after a round with a quorum.
    fn deadline(&self, quorum_timeout: Duration) -> Option<Instant> {
        let end = self.since? + quorum_timeout;
        Some(self.quarantined_until.map_or(end, |until| until.max(end)))
    }
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
        let failures = LatchFailures::none(Some(context.now()));
        Self { context, latch, count, retention, settings, view, votes, failures }
    }

    /// Makes one round: sends the arrivals of the view to every node, and merges the arrivals in the answers. The round
    /// ends when `is_enough` is true, when all nodes have answered, an eighth of a node timeout after a quorum has
    /// answered, or after a node timeout.
    pub(super) async fn ask(&mut self, is_enough: impl Fn(&LatchView) -> bool) -> Result<(), Error> {
        let context = self.context;
        let begun = context.now();
        let node_timeout = self.settings.attempt.node_timeout;
        let mut deadline = begun + node_timeout;
        let request = self.request();
        self.view.begin_round();
        self.votes.fill(NodeReply::Failed(NodeError::TimedOut));
        let mut fanout = send_to_all(context, Operation::Latch(request), deadline);
        while !self.view.has_all_answers() && !is_enough(&self.view) {
            let FanoutEvent::Answer { node, answer, .. } = fanout.next(&*context.clock, deadline).await
            else {
                break;
            };
            if let Some(vote) = self.votes.get_mut(node) {
                *vote = NodeReply::from(&answer);
            }
            let was_recorded = self.view.is_recorded();
            self.view.on_answer(node, latch_answer(answer));
            if self.view.is_recorded() && !was_recorded {
                deadline = deadline.min(context.now() + node_timeout / GRACE_SHARE);
            }
        }
        if self.view.is_recorded() {
            self.failures = LatchFailures::none(None);
        } else {
            self.failures.since.get_or_insert(begun);
            self.failures.has_stood_still = context.now() > deadline + self.settings.attempt.shortest_hedge();
            let remaining = context.replies(self.votes.iter().cloned()).quarantined_for();
            // The node may count the rest of the quarantine a moment longer than this client.
            let floor = self.settings.pacing.floor;
            self.failures.quarantined_until = remaining.map(|remaining| context.now() + remaining + floor);
        }
        match self.view.count_mismatch() {
            Some(recorded) => Err(self.count_mismatch(recorded)),
            None => Ok(()),
        }
    }

    fn request(&self) -> node::Latch {
        node::Latch {
            latch: self.latch.clone(),
            count: self.count,
            is_open: self.view.is_open(),
            arrivals: self.view.arrivals_to_send(),
            ttl: self.retention,
        }
    }

    /// Sends to all nodes that the latch is open, if a node that has answered has not recorded the opening. The call
    /// does not wait for the answers.
    pub(super) fn spread(&self) {
        if self.view.must_spread_opening() {
            let deadline = self.context.now() + self.settings.attempt.node_timeout;
            drop(send_to_all(self.context, Operation::Latch(self.request()), deadline));
        }
    }

    /// Makes rounds until a quorum has recorded the arrivals of the view.
    pub(super) async fn arrive(&mut self) -> Result<(), Error> {
        loop {
            self.ask(LatchView::is_recorded).await?;
            if self.view.is_recorded() {
                self.spread();
                return Ok(());
            }
            self.pause_without_quorum().await?;
        }
    }

    /// Adds the missing arrivals, with numbers after this id, and makes rounds until a quorum has recorded that the
    /// latch is open.
    pub(super) async fn open(&mut self, id: &[u8]) -> Result<(), Error> {
        let numbered = |number: u32| [id, format!("+{number}").as_bytes()].concat().into();
        loop {
            self.ask(LatchView::is_recorded).await?;
            if self.view.is_known_open() {
                self.spread();
                return Ok(());
            }
            if self.view.is_recorded() {
                self.view.add_missing((0..self.count).map(numbered));
            } else {
                self.pause_without_quorum().await?;
            }
        }
    }

    /// Makes rounds until a quorum has recorded that the latch is open.
    pub(super) async fn until_open(&mut self) -> Result<(), Error> {
        let wake = Arc::new(NoticeWaker::default());
        let topic = names::latch(&self.latch);
        let nodes = self.context.nodes.iter();
        let _subscriptions: Vec<Subscription> =
            nodes.map(|node| node.subscribe(&topic, Arc::clone(&wake) as _)).collect();
        let pacing = self.settings.pacing;
        let mut poll = pacing.first_poll;
        loop {
            self.ask(|view| view.is_known_open() || view.has_unsent_opening()).await?;
            if self.view.is_known_open() {
                self.spread();
                return Ok(());
            }
            if self.view.has_unsent_opening() {
                continue;
            }
            if !self.view.is_recorded() {
                self.pause_without_quorum().await?;
                continue;
            }
            let context = self.context;
            // The delay limits the rate of rounds if many notices arrive.
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

    /// Waits after a round without a quorum, for a delay that doubles with each further round without a quorum.
    ///
    /// # Errors
    ///
    /// The error of [`no_quorum`](Self::no_quorum), if no round has had a quorum for the quorum timeout, and until the
    /// end of quarantines that the nodes have reported. If the client stood still during the last round, the call makes
    /// one more round instead.
    pub(super) async fn pause_without_quorum(&mut self) -> Result<(), Error> {
        let context = self.context;
        let pacing = self.settings.pacing;
        let now = context.now();
        let end = self.failures.deadline(self.settings.quorum_timeout);
        if end.is_some_and(|end| end <= now) && !self.failures.has_stood_still {
            return Err(self.no_quorum());
        }
        let since = self.failures.since.unwrap_or(now);
        if !self.failures.has_stood_still {
            let lasts = now.saturating_duration_since(since);
            context.outage_warnings.attempt_failed(now, lasts, || self.no_quorum());
        }
        let at = now + pacing.delay_after(self.failures.pauses, context.jitter());
        self.failures.pauses += 1;
        context.clock.sleep_until(end.map_or(at, |end| end.min(at))).await;
        Ok(())
    }

    /// Returns the error for the lack of a quorum. A different count on a minority of nodes is a reply in this error,
    /// because an arrival that failed may have left that count.
    pub(super) fn no_quorum(&self) -> Error {
        let replies = self.context.replies(self.votes.iter().cloned());
        NoQuorum::new(Goal::Latch(self.latch.clone()), replies).into()
    }

    fn count_mismatch(&self, recorded: u32) -> Error {
        ConfigError::CountMismatch { latch: self.latch.clone(), given: self.count, recorded }.into()
    }

    /// Whether the last round had no quorum, or no round has ended.
    pub(super) fn is_without_quorum(&self) -> bool {
        self.failures.since.is_some()
    }

    pub(super) fn arrived(&self) -> u32 {
        u32::try_from(self.view.arrived()).unwrap_or(u32::MAX)
    }
}

/// Converts the answer of a node to an answer for the view.
fn latch_answer(answer: Answer) -> LatchAnswer {
    match answer {
        Answer::Open => LatchAnswer::Open,
        Answer::Arrived(arrivals) => LatchAnswer::Arrived(arrivals),
        Answer::CountMismatch(count) => LatchAnswer::CountMismatch(count),
        _ => LatchAnswer::NoVote,
    }
}
