//! The queries for vacant candidates: before a call waits, in a `try_lock`, and by the release watcher.

use std::{collections::BTreeMap, time::Duration};

use super::{CheckedAnyOf, MAX_ATTEMPTS_TRY_LOCK};
use crate::{
    client::fanout::{Fanout, FanoutEvent},
    clock::Instant,
    mutation::{self, Mutation},
    node::{Answer, Operation, Request, Vacant},
};

/// A query for vacant candidates, in flight at several nodes.
///
/// The candidates are split into chunks. The query ends when one node has answered for each chunk, or at its deadline.
pub(super) struct VacancyQuery {
    /// The outstanding answers. Each tag is an index of `requests`.
    fanout: Fanout<usize>,
    deadline: Instant,
    requests: Vec<NodeRequest>,
    /// The chunks for which no node has answered.
    unanswered: Vec<usize>,
}

/// The part of a query that one node answers.
struct NodeRequest {
    node: usize,
    candidates: Vec<usize>,
    chunks: Vec<usize>,
}

impl CheckedAnyOf {
    /// Sends a query for all `candidates`, as one chunk, to this number of nodes. The first answer decides. If
    /// `will_wait` is true, candidates with a yield mark or a writer mark do not count as vacant.
    pub(super) fn query_vacant(&self, candidates: Vec<usize>, nodes: usize, will_wait: bool) -> VacancyQuery {
        let request = |node| NodeRequest { node, candidates: candidates.clone(), chunks: vec![0] };
        let (responsive, silent) = self.shuffled_nodes();
        let requests = responsive.into_iter().chain(silent).take(nodes).map(request).collect();
        self.send_query(requests, !will_wait)
    }

    /// Splits the candidates into one chunk for each node, and sends each chunk to `nodes_per_chunk` nodes. `will_wait`
    /// has the same meaning as in [`query_vacant`](Self::query_vacant). A waiting call also skips silent nodes.
    ///
    /// One chunk for each node spreads the work: a query for a thousand candidates costs a node more than all other
    /// requests of a newcomer together.
    pub(super) fn query_vacant_in_chunks(
        &self,
        candidates: &[usize],
        nodes_per_chunk: usize,
        will_wait: bool,
    ) -> VacancyQuery {
        let (mut nodes, silent) = self.shuffled_nodes();
        // A waiting call skips silent nodes, because a chunk at a silent node would usually get no answer in time.
        if !will_wait || nodes.is_empty() {
            nodes.extend(silent);
        }
        let size = candidates.len().div_ceil(nodes.len().max(1)).max(1);
        let all: Vec<&[usize]> = candidates.chunks(size).collect();
        let request = |(at, node): (usize, &usize)| {
            let chunks = (at..at + nodes_per_chunk.min(nodes.len())).map(|chunk| chunk % nodes.len());
            let chunks: Vec<usize> = chunks.filter(|chunk| *chunk < all.len()).collect();
            let candidates = chunks.iter().filter_map(|chunk| all.get(*chunk)).copied().flatten().copied();
            NodeRequest { node: *node, candidates: candidates.collect(), chunks }
        };
        self.send_query(nodes.iter().enumerate().map(request).collect(), !will_wait)
    }

    /// Returns the time to wait for the answer of a node to a query, which follows the usual response time of the node.
    ///
    /// If queries ended earlier, busy nodes would execute each query for a caller that has given up, and no waiting call
    /// would learn of a vacant candidate.
    pub(super) fn hedge_of(&self, node: usize) -> Duration {
        let settings = self.settings.attempt;
        let hedge = self.context().responsiveness.with_hedge_at(node, settings).hedge;
        mutation::altered(Mutation::ImpatientVacancyQueries, hedge, |_| settings.hedge)
    }

    /// Returns two lists in random order: the nodes that are not silent, and the silent nodes.
    pub(super) fn shuffled_nodes(&self) -> (Vec<usize>, Vec<usize>) {
        let context = self.context();
        let now = context.now();
        let nodes = context.sample_indices(context.nodes.len(), usize::MAX);
        nodes.into_iter().partition(|node| !context.responsiveness.is_silent(*node, now))
    }

    /// Queries the queue node of each candidate. The query ignores marks, because the queue node counts a candidate
    /// with waiters as not vacant.
    pub(super) fn query_queue_nodes(&self, candidates: impl IntoIterator<Item = usize>) -> VacancyQuery {
        let mut requests: BTreeMap<usize, NodeRequest> = BTreeMap::new();
        for index in candidates {
            let Some(node) = self.queue_node(index) else { continue };
            let chunk = requests.len();
            let request = || NodeRequest { node, candidates: Vec::new(), chunks: vec![chunk] };
            requests.entry(node).or_insert_with(request).candidates.push(index);
        }
        self.send_query(requests.into_values().collect(), true)
    }

    fn send_query(&self, mut requests: Vec<NodeRequest>, ignores_marks: bool) -> VacancyQuery {
        let context = self.context();
        requests.retain(|request| !request.candidates.is_empty());
        let longest = requests.iter().map(|request| self.hedge_of(request.node)).max();
        let deadline = context.now() + longest.unwrap_or(self.settings.attempt.hedge);
        let max_resources = u32::try_from(MAX_ATTEMPTS_TRY_LOCK).unwrap_or(u32::MAX);
        let mut fanout = Fanout::new();
        for (at, request) in requests.iter().enumerate() {
            let resources = request.candidates.iter().map(|index| (self.resource_at)(*index)).collect();
            let vacant = Operation::Vacant(Vacant { resources, max_resources, ignores_marks });
            fanout.send(&context.nodes, request.node, at, Request::one(vacant, deadline));
        }
        let mut unanswered: Vec<usize> = requests.iter().flat_map(|request| request.chunks.clone()).collect();
        unanswered.sort_unstable();
        unanswered.dedup();
        VacancyQuery { fanout, deadline, requests, unanswered }
    }
}

impl VacancyQuery {
    /// Returns the vacant candidates of the next answer that names at least one. Returns no candidates when every chunk
    /// has an answer, or at the deadline.
    pub(super) async fn next_vacant(&mut self, any_of: &CheckedAnyOf) -> Vec<usize> {
        while self.fanout.outstanding() > 0 && !self.unanswered.is_empty() {
            let event = self.fanout.next(&*any_of.context().clock, self.deadline).await;
            let FanoutEvent::Answer { tag, answer, .. } = event else { break };
            let (Answer::Vacant(vacant), Some(request)) = (answer, self.requests.get(tag)) else {
                continue;
            };
            any_of.context().responsiveness.answered(request.node);
            let found = vacant.into_iter().filter_map(|index| request.candidates.get(index).copied());
            let found: Vec<usize> = found.take(MAX_ATTEMPTS_TRY_LOCK).collect();
            if !found.is_empty() {
                return found;
            }
            self.unanswered.retain(|chunk| !request.chunks.contains(chunk));
        }
        Vec::new()
    }
}
