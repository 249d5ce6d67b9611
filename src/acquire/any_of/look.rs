//! Looking which of some resources are vacant.

use std::collections::BTreeMap;

use super::{AnyOf, TRIED_ONCE};
use crate::{
    algorithm::attempt::HEDGE_SHARE,
    client::fanout::{Fanout, FanoutEvent},
    clock::Instant,
    node::{Answer, Operation, Request, Vacant},
};

/// The question which of some are vacant, under way.
pub(super) struct Look {
    /// By the index of what each node is asked about.
    asked: Fanout<usize>,
    deadline: Instant,
    questions: Vec<VacancyQuestion>,
    /// Which shares no node has looked at yet.
    unseen: Vec<usize>,
}

/// What one node is asked about.
struct VacancyQuestion {
    node: usize,
    indices: Vec<usize>,
    shares: Vec<usize>,
}

impl AnyOf {
    /// Asks so many nodes which of these are vacant; where it will wait, others are let go first. The
    /// first answer counts.
    pub(super) fn ask_vacant(&self, indices: Vec<usize>, nodes: usize, waits: bool) -> Look {
        let question = |node| VacancyQuestion { node, indices: indices.clone(), shares: vec![0] };
        let (answering, silent) = self.nodes_to_ask();
        let questions = answering.into_iter().chain(silent).take(nodes).map(question).collect();
        self.ask(questions, !waits)
    }

    /// Asks nodes, each about some shares of these: so many nodes about each share. To look at a thousand
    /// costs a node more than the rest of what a newcomer asks of it.
    pub(super) fn ask_vacant_by_shares(&self, indices: &[usize], nodes_each: usize, waits: bool) -> Look {
        let (mut nodes, silent) = self.nodes_to_ask();
        // Who waits is told later of what a silent one would say.
        if !waits || nodes.is_empty() {
            nodes.extend(silent);
        }
        let size = indices.len().div_ceil(nodes.len().max(1)).max(1);
        let all: Vec<&[usize]> = indices.chunks(size).collect();
        let question = |(at, node): (usize, &usize)| {
            let shares = (at..at + nodes_each.min(nodes.len())).map(|share| share % nodes.len());
            let shares: Vec<usize> = shares.filter(|share| *share < all.len().max(1)).collect();
            let indices = shares.iter().filter_map(|share| all.get(*share)).copied().flatten().copied();
            VacancyQuestion { node: *node, indices: indices.collect(), shares }
        };
        self.ask(nodes.iter().enumerate().map(question).collect(), !waits)
    }

    /// All nodes in random order: those that are not known to be silent, and those that are.
    fn nodes_to_ask(&self) -> (Vec<usize>, Vec<usize>) {
        let context = self.context();
        let now = context.now();
        let nodes = context.sample_indices(context.nodes.len(), usize::MAX);
        nodes.into_iter().partition(|node| !context.responsiveness.is_silent(*node, now))
    }

    /// Asks of each of these its queue node alone, which knows whether anybody is queued for it: so no
    /// mark matters.
    pub(super) fn ask_queue_nodes(&self, indices: impl IntoIterator<Item = usize>) -> Look {
        let mut questions: BTreeMap<usize, VacancyQuestion> = BTreeMap::new();
        for index in indices {
            let Some(node) = self.queue_node(index) else { continue };
            let share = questions.len();
            let question = || VacancyQuestion { node, indices: Vec::new(), shares: vec![share] };
            questions.entry(node).or_insert_with(question).indices.push(index);
        }
        self.ask(questions.into_values().collect(), true)
    }

    fn ask(&self, mut questions: Vec<VacancyQuestion>, even_marked: bool) -> Look {
        let context = self.context();
        questions.retain(|question| !question.indices.is_empty() && !question.shares.is_empty());
        let deadline = context.now() + self.settings.rules.node_timeout / HEDGE_SHARE;
        let most = u32::try_from(TRIED_ONCE).unwrap_or(u32::MAX);
        let mut asked = Fanout::new();
        for (at, question) in questions.iter().enumerate() {
            let resources = question.indices.iter().map(|index| (self.resource_at)(*index)).collect();
            let vacant = Operation::Vacant(Vacant { resources, most, even_marked });
            asked.send(&context.nodes, question.node, at, Request::one(vacant, deadline));
        }
        let mut unseen: Vec<usize> = questions.iter().flat_map(|question| question.shares.clone()).collect();
        unseen.sort_unstable();
        unseen.dedup();
        Look { asked, deadline, questions, unseen }
    }
}

impl Look {
    /// Which are vacant, as many as anybody tries, by the next node that knows of any; none if every
    /// share was seen, or no node says more.
    pub(super) async fn found(&mut self, any: &AnyOf) -> Vec<usize> {
        while self.asked.outstanding() > 0 && !self.unseen.is_empty() {
            let heard = self.asked.next(&*any.context().clock, self.deadline).await;
            let FanoutEvent::Answer { tag, answer, .. } = heard else { break };
            let (Answer::Vacant(vacant), Some(question)) = (answer, self.questions.get(tag)) else {
                continue;
            };
            any.context().responsiveness.answered(question.node);
            let found = vacant.into_iter().filter_map(|index| question.indices.get(index).copied());
            let found: Vec<usize> = found.take(TRIED_ONCE).collect();
            if !found.is_empty() {
                return found;
            }
            self.unseen.retain(|share| !question.shares.contains(share));
        }
        Vec::new()
    }
}
