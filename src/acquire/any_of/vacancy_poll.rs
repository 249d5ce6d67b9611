//! The polls by which a waiting call finds vacant candidates without a notice.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    AcquiredCandidate, CheckedAnyOf, MAX_ATTEMPTS_TRY_LOCK, MAX_ATTEMPTS_WAITING,
    missed_candidates::MissedCandidates,
};
use crate::{
    acquire::attempt::attempt,
    algorithm::{attempt::Plan, node_set::NodeSet},
    client::fanout::{Fanout, FanoutEvent},
    clock::Instant,
    node::{Answer, Operation, Request, Vacant},
};

/// The largest number of candidates in the request to one node, unless the requests to all nodes together cannot cover
/// the candidates.
const CANDIDATES_PER_NODE: usize = 256;

/// The smallest number of nodes to query. A single node would be the queue node of some candidates.
const MIN_NODES: usize = 2;

/// The shortest and the longest delay before a poll, in longest poll intervals. With the default of 5 s, a
/// poll and the attempts that follow end within 8 s after the previous poll.
const POLL_DELAYS: (f64, f64) = (0.5, 1.3);

/// The time, in hand-overs, that waiters have to lock a candidate that a poll has found vacant and missed. If the
/// candidate is still vacant after this time, its waiters stand still, and the call takes the candidate.
const PATIENCE: u32 = 4;

/// A query of candidates in which one node answers for each candidate.
///
/// ```text
///   query the node of each candidate ──► an answer           the candidate is vacant, or not
///                                    ──► an abstention, an error, or no answer in time
///                                                            query the next node
/// ```
///
/// The queue node of a candidate comes last. The queue node reports a candidate with a waiter as not vacant, even
/// if that waiter stands still and does not take a free candidate.
pub(super) struct VacancyPoll<'a> {
    any_of: &'a CheckedAnyOf,
    /// The nodes in random order, silent nodes last.
    order: Vec<usize>,
    /// The outstanding answers. Each tag is an index of `requests`.
    fanout: Fanout<usize>,
    requests: Vec<PollRequest>,
    /// The candidates for which no node has answered.
    unanswered: BTreeSet<usize>,
    deadline: Instant,
}

/// A request of a poll to one node.
struct PollRequest {
    node: usize,
    candidates: Vec<usize>,
    /// The nodes that were queried for these candidates, this node included.
    asked: NodeSet,
    /// The time after which the poll queries the next node; `None` after the answer, or after the query of the next
    /// node.
    next_node_at: Option<Instant>,
}

/// The result of a poll that acquired no candidate: the candidates that the poll attempted in vain, because another
/// client was faster or waiters are ahead.
type Missed = Vec<usize>;

impl CheckedAnyOf {
    /// Polls all candidates, once in each longest poll interval, until a candidate is acquired. At busy nodes, the polls
    /// are rarer, by [`slowness`](Self::slowness).
    ///
    /// A candidate may become vacant without a notice to this call: the notice was lost, the lease expired, or the
    /// release watcher or the first waiter stands still. If an attempt at the candidate fails, because the candidate
    /// has waiters or another client is faster, the call joins the queue of the candidate. If the candidate is still
    /// vacant a few hand-overs later, several waiters ahead stand still, and the call takes the candidate ahead of
    /// these waiters.
    ///
    /// # Cancel safety
    ///
    /// As [`attempt_once`](crate::acquire::attempt::attempt_once). The call leaves the queues that it has joined.
    pub(super) async fn acquire_by_polls(&self) -> AcquiredCandidate {
        let context = self.context();
        let hand_over = context.settings.parameters.hand_over;
        let mut missed = MissedCandidates::new(self);
        // The candidates that the previous poll has missed, and that their waiters should have locked at the next poll.
        let mut overdue = Missed::new();
        loop {
            let (shortest, longest) = POLL_DELAYS;
            let share = shortest + (longest - shortest) * context.jitter();
            let delay = match overdue.is_empty() {
                true => self.settings.pacing.longest_poll.mul_f64(share * self.slowness()),
                false => hand_over * PATIENCE,
            };
            let poll = async {
                context.clock.sleep_until(context.now() + delay).await;
                match overdue.is_empty() {
                    true => self.poll_vacant().await,
                    false => self.take_vacant(overdue.clone()).await.ok_or_else(Missed::new),
                }
            };
            tokio::select! {
                biased;
                acquired = missed.acquired() => return acquired,
                polled = poll => match polled {
                    Ok(acquired) => return acquired,
                    Err(indices) => {
                        indices.iter().for_each(|index| missed.join(*index));
                        overdue = indices;
                    }
                }
            }
        }
    }

    /// Returns the multiple of the usual poll interval after which the next poll begins: 1 if a quorum answers quickly,
    /// and at most 8, because a hedge is at most a node timeout.
    ///
    /// At busy nodes, candidates are vacant for long although their waiters are on the way. Then each poll finds such
    /// candidates, and its attempts are in vain and cost nodes as much as many grants.
    fn slowness(&self) -> f64 {
        let shortest = self.settings.attempt.shortest_hedge();
        let mut hedges: Vec<Duration> =
            (0..self.context().nodes.len()).map(|node| self.hedge_of(node)).collect();
        hedges.sort_unstable();
        let of_quorum = hedges.into_iter().take(self.settings.attempt.electorate.needed()).next_back();
        (of_quorum.unwrap_or(shortest).as_secs_f64() / shortest.as_secs_f64()).max(1.0)
    }

    /// Queries some candidates once, and locks the first vacant candidate, even ahead of waiters.
    async fn take_vacant(&self, candidates: Vec<usize>) -> Option<AcquiredCandidate> {
        let context = self.context();
        let index = VacancyPoll::begin(self, candidates).next_vacant().await.first().copied()?;
        let checked = self.checked(index, self.settings).ok()?;
        // The plan of a woken client ignores the wait queue. Without queue entries, the attempt only locks.
        let plan = Plan::Woken(self.queue_node(index)?);
        let outcome = attempt(context, &checked, plan, checked.settings.quorum_timeout, 0, None).await;
        let acquired = outcome.of_only_attempt(context, &checked).ok()??;
        Some((index, acquired))
    }

    /// Queries all candidates once, and attempts the first vacant candidates. If no attempt succeeds, returns the
    /// candidates that were missed. An attempt without a quorum ends the poll.
    pub(super) async fn poll_vacant(&self) -> Result<AcquiredCandidate, Missed> {
        let will_wait = true;
        let all = self.context().sample_indices(self.count, self.count);
        let mut poll = VacancyPoll::begin(self, all);
        let mut missed = Missed::new();
        loop {
            let vacant = poll.next_vacant().await;
            if vacant.is_empty() {
                return Err(missed);
            }
            for index in vacant {
                match self.attempt(index, will_wait).await {
                    Ok(Some(acquired)) => return Ok(acquired),
                    Ok(None) => missed.push(index),
                    // Without a quorum, the waits in the queues decide when the call gives up.
                    Err(_) => return Err(missed),
                }
                if missed.len() >= MAX_ATTEMPTS_WAITING {
                    return Err(missed);
                }
            }
        }
    }
}

impl<'a> VacancyPoll<'a> {
    /// Sends the first requests of the poll. The order of `candidates` should be random, because an answer names only
    /// the first vacant candidates.
    fn begin(any_of: &'a CheckedAnyOf, candidates: Vec<usize>) -> Self {
        let context = any_of.context();
        let (mut order, silent) = any_of.shuffled_nodes();
        order.extend(silent);
        let nodes = candidates.len().div_ceil(CANDIDATES_PER_NODE).max(MIN_NODES).min(order.len());
        let mut poll = Self {
            any_of,
            order,
            fanout: Fanout::new(),
            requests: Vec::new(),
            unanswered: candidates.iter().copied().collect(),
            deadline: context.now() + any_of.settings.attempt.node_timeout,
        };
        let node = |(at, index): (usize, usize)| {
            let queue_node = any_of.queue_node(index);
            let others = (0..nodes).filter_map(|next| poll.order.get((at + next) % nodes));
            let node = others.copied().find(|node| Some(*node) != queue_node).or(queue_node);
            node.map(|node| (node, index))
        };
        let assigned: Vec<_> = candidates.into_iter().enumerate().filter_map(node).collect();
        poll.send(assigned, NodeSet::EMPTY);
        poll
    }

    /// Returns the vacant candidates of the next answer that names at least one. Returns no candidates at the end of
    /// the poll.
    async fn next_vacant(&mut self) -> Vec<usize> {
        let context = self.any_of.context();
        while !self.unanswered.is_empty() && self.fanout.outstanding() > 0 {
            let next_node_at = self.requests.iter().filter_map(|request| request.next_node_at).min();
            let until = next_node_at.map_or(self.deadline, |at| at.min(self.deadline));
            match self.fanout.next(&*context.clock, until).await {
                FanoutEvent::Answer { tag, answer: Answer::Vacant(vacant), .. } => {
                    let found = self.answered(tag, vacant);
                    if !found.is_empty() {
                        return found;
                    }
                }
                FanoutEvent::Answer { tag, .. } => self.ask_next_node(tag),
                FanoutEvent::DeadlineReached => {
                    let now = context.now();
                    if now >= self.deadline {
                        break;
                    }
                    let is_late = |request: &PollRequest| request.next_node_at.is_some_and(|at| at <= now);
                    let late = self.requests.iter().enumerate().filter(|(_, request)| is_late(request));
                    let late: Vec<usize> = late.map(|(tag, _)| tag).collect();
                    late.into_iter().for_each(|tag| self.ask_next_node(tag));
                }
            }
        }
        Vec::new()
    }

    /// Handles the answer of a node. `vacant` has indices into the candidates of the request. Returns the vacant
    /// candidates.
    fn answered(&mut self, tag: usize, vacant: Vec<usize>) -> Vec<usize> {
        let Some(request) = self.requests.get_mut(tag) else { return Vec::new() };
        request.next_node_at = None;
        self.any_of.context().responsiveness.answered(request.node);
        request.candidates.iter().for_each(|index| {
            self.unanswered.remove(index);
        });
        let found = vacant.into_iter().filter_map(|at| request.candidates.get(at).copied());
        found.take(MAX_ATTEMPTS_TRY_LOCK).collect()
    }

    /// Queries the next node for the candidates of a request that was answered by an error or an abstention, or is
    /// late.
    fn ask_next_node(&mut self, tag: usize) {
        let Some(request) = self.requests.get_mut(tag) else { return };
        // If this node was late, the poll has already queried the next node.
        if request.next_node_at.take().is_none() {
            return;
        }
        let asked = request.asked;
        let candidates = std::mem::take(&mut request.candidates);
        let unanswered = candidates.iter().copied().filter(|index| self.unanswered.contains(index));
        let next = |index: usize| {
            let queue_node = self.any_of.queue_node(index);
            let mut rest = self.order.iter().copied().filter(|node| !asked.contains(*node));
            let node = rest.clone().find(|node| Some(*node) != queue_node).or_else(|| rest.next());
            node.map(|node| (node, index))
        };
        let assigned: Vec<_> = unanswered.filter_map(next).collect();
        // The request keeps its candidates, because a late answer names candidates by their indices in the request.
        if let Some(request) = self.requests.get_mut(tag) {
            request.candidates = candidates;
        }
        self.send(assigned, asked);
    }

    /// Sends one request to each node, with the candidates that are assigned to the node.
    fn send(&mut self, assigned: Vec<(usize, usize)>, asked: NodeSet) {
        let context = self.any_of.context();
        let mut by_node: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (node, index) in assigned {
            by_node.entry(node).or_default().push(index);
        }
        let max_resources = u32::try_from(MAX_ATTEMPTS_TRY_LOCK).unwrap_or(u32::MAX);
        for (node, candidates) in by_node {
            let resources = candidates.iter().map(|index| (self.any_of.resource_at)(*index)).collect();
            let vacant = Operation::Vacant(Vacant { resources, max_resources, ignores_marks: false });
            let request = Request::one(vacant, self.deadline);
            let next_node_at = Some(context.now() + self.any_of.hedge_of(node));
            self.fanout.send(&context.nodes, node, self.requests.len(), request);
            self.requests.push(PollRequest { node, candidates, asked: asked.with(node), next_node_at });
        }
    }
}
