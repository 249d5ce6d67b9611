//! Which resources others are known to wait for.

use std::{collections::HashMap, sync::Mutex};

use futures::FutureExt;

use crate::{
    algorithm::node_set::NodeSet,
    mutex::lock,
    node::{Reply, Resources},
};

/// The most resources that are remembered. What is forgotten costs its next lock at most what it saves: a round trip.
const MOST: usize = 4096;

/// The resources for which others wait, by the last word of the nodes that keep their lines.
///
/// Whoever knows of a line asks its node before the others. Without that, a client that is nearer to the other nodes would have
/// a quorum before that node has said who is first, again and again.
#[derive(Debug, Default)]
pub(crate) struct Queues {
    /// Looked up by resources, never iterated.
    known: Mutex<HashMap<Resources, Known>>,
    /// Nodes that were passed over because they did not answer, and have not since.
    silent: Mutex<NodeSet>,
}

/// What is known of the line of one of some resources: that others are in it, unless a reply says otherwise that is still to
/// come.
#[derive(Debug)]
struct Known {
    index: usize,
    keeper: usize,
    reply: Option<Reply>,
}

impl Queues {
    /// The node that keeps the line of one of the resources has said whether anybody is in it.
    pub(crate) fn note(&self, resources: &Resources, index: usize, keeper: usize, is_awaited: bool) {
        if is_awaited {
            self.keep(resources, Known { index, keeper, reply: None });
        } else {
            lock(&self.known).remove(resources);
        }
    }

    /// The node that keeps the line is about to say it, and nobody waits for that.
    pub(crate) fn hear_later(&self, resources: &Resources, index: usize, keeper: usize, reply: Reply) {
        self.keep(resources, Known { index, keeper, reply: Some(reply) });
    }

    /// A node that keeps lines has not answered in time. It is not asked before the others until it has: a free resource would
    /// cost what it is waited for, again and again.
    pub(crate) fn passed_over(&self, keeper: usize) {
        lock(&self.silent).insert(keeper);
    }

    /// A node that keeps lines has answered.
    pub(crate) fn heard(&self, keeper: usize) {
        lock(&self.silent).remove(keeper);
    }

    /// In whose line others are known to be, or may be.
    pub(crate) fn of(&self, resources: &Resources) -> Option<usize> {
        let mut all = lock(&self.known);
        let known = all.get_mut(resources)?;
        if let Some(answers) = known.reply.as_mut().and_then(|reply| reply.now_or_never()) {
            let is_awaited = answers.into_iter().next().and_then(|answer| answer.into_parts().1);
            if is_awaited != Some(true) {
                all.remove(resources);
                return None;
            }
            known.reply = None;
            self.heard(known.keeper);
        }
        let is_silent = lock(&self.silent).contains(known.keeper);
        (!is_silent).then_some(known.index)
    }

    fn keep(&self, resources: &Resources, latest: Known) {
        let mut known = lock(&self.known);
        if known.len() >= MOST && !known.contains_key(resources) {
            known.clear();
        }
        known.insert(resources.clone(), latest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::{Answer, Fault, entries::resources};

    #[test]
    fn the_last_word_counts() {
        let queues = Queues::default();
        queues.note(&resources("a b"), 1, 4, true);
        assert_eq!((queues.of(&resources("a b")), queues.of(&resources("a"))), (Some(1), None));
        queues.note(&resources("a b"), 0, 4, true);
        assert_eq!(queues.of(&resources("a b")), Some(0));
        queues.note(&resources("a b"), 0, 4, false);
        assert_eq!(queues.of(&resources("a b")), None);
    }

    #[test]
    fn no_more_is_remembered_than_there_is_room_for() {
        let queues = Queues::default();
        for number in 0..=MOST {
            queues.note(&resources(&format!("r{number}")), 0, 4, true);
        }
        assert!(lock(&queues.known).len() <= MOST);
        assert_eq!(queues.of(&resources(&format!("r{MOST}"))), Some(0), "the last word is there");
    }

    #[test]
    fn a_node_that_does_not_answer_is_asked_with_the_others_until_it_has() {
        let queues = Queues::default();
        queues.note(&resources("a"), 0, 4, true);
        queues.passed_over(2);
        assert_eq!(queues.of(&resources("a")), Some(0));
        queues.passed_over(4);
        assert_eq!(queues.of(&resources("a")), None);
        queues.heard(4);
        assert_eq!(queues.of(&resources("a")), Some(0));
    }

    #[test]
    fn a_reply_that_is_still_to_come_counts_as_others_until_it_says_otherwise() {
        for (answer, known) in [
            (Answer::Unlocked { deleted: 1 }, None),
            (Answer::Unlocked { deleted: 1 }.awaited(true), Some(0)),
            (Answer::Fault(Fault::Disconnected), None),
        ] {
            let queues = Queues::default();
            let (responder, reply) = Reply::channel(1);
            queues.hear_later(&resources("a"), 0, 4, reply);
            assert_eq!(queues.of(&resources("a")), Some(0));
            responder.answer(vec![answer]);
            assert_eq!(queues.of(&resources("a")), known);
        }
    }
}
