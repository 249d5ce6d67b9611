//! The query for the leader of an election, for `Election::leader` and for observers.

use std::time::Duration;

use crate::{
    acquire::checked_request::CheckedRequest,
    algorithm::tally::Electorate,
    client::{
        context::ClientContext,
        fanout::{Fanout, FanoutEvent},
    },
    error::{Error, Goal, NoQuorum},
    mutation::{self, Mutation},
    node::{Answer, Observe, ObserveAnswer, Operation, Proclamation, Request},
    values::{LeaseId, NodeError, NodeReply},
};

/// The leader of an election, by the answers of the nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaderView {
    /// The last proclamation of the leader. `None` if no lease has a quorum, or if the holder has proclaimed no value
    /// yet.
    pub(super) leader: Option<Proclamation>,
    /// The time for which a quorum keeps the lock of the holder without a renewal. `None` if no lease has a quorum.
    pub(super) remaining: Option<Duration>,
}

/// The answers of the nodes to one query.
///
/// The leader is the holder whose lease id q nodes name. A proclamation is complete when q nodes have recorded the
/// value. Any two quorums share a node. Therefore, among any q nodes that name the holder, at least one node has the
/// value of the last complete proclamation or a later value.
struct LeaderQuery {
    electorate: Electorate,
    /// The answer of each node; a timeout for a node that has not answered yet.
    answers: Vec<Answer>,
    /// The number of nodes that have not answered yet.
    open: usize,
}

/// Queries every node, and returns as soon as the answers decide the view.
///
/// # Errors
///
/// [`Error::NoQuorum`] if the answers within a node timeout do not decide the view.
///
/// # Cancel safety
///
/// Dropping the future has no effect on the nodes.
pub(super) async fn query(context: &ClientContext, checked: &CheckedRequest) -> Result<LeaderView, Error> {
    let deadline = context.now() + checked.settings.attempt.node_timeout;
    let request = Request::one(Operation::Observe(Observe { resource: checked.resource.clone() }), deadline);
    let replies = context.nodes.iter().map(|node| node.call(request.clone())).enumerate().collect();
    let mut fanout = Fanout::from_replies(replies);
    let mut query = LeaderQuery::new(context.settings.electorate);
    loop {
        if let Some(view) = query.view() {
            return Ok(view);
        }
        if query.open == 0 {
            break;
        }
        let FanoutEvent::Answer { node, answer, .. } = fanout.next(&*context.clock, deadline).await else {
            break;
        };
        query.record(node, answer);
    }
    let replies = context.replies(query.answers.iter().map(NodeReply::from));
    Err(NoQuorum::new(Goal::FindLeader(checked.resource.clone()), replies).into())
}

impl LeaderQuery {
    fn new(electorate: Electorate) -> Self {
        let nodes = electorate.nodes();
        Self { electorate, answers: vec![Answer::Error(NodeError::TimedOut); nodes], open: nodes }
    }

    /// Records the answer of a node.
    fn record(&mut self, node: usize, answer: Answer) {
        self.open = self.open.saturating_sub(1);
        if let Some(recorded) = self.answers.get_mut(node) {
            *recorded = answer;
        }
    }

    /// Returns the view; `None` if the view depends on nodes that have not answered or have answered with an error.
    fn view(&self) -> Option<LeaderView> {
        let needed = self.electorate.needed();
        let observed = || {
            self.answers.iter().filter_map(|answer| match answer {
                Answer::Observed(answer) => Some(answer),
                _ => None,
            })
        };
        let supporters = |lease_id: &LeaseId| {
            let lease_id = lease_id.clone();
            observed().filter(move |answer| answer.lease_id.as_ref() == Some(&lease_id))
        };
        let count = |answer: &ObserveAnswer| {
            answer.lease_id.as_ref().map_or(0, |lease_id| supporters(lease_id).count())
        };
        if let Some(holder) =
            observed().find(|answer| count(answer) >= needed).and_then(|answer| answer.lease_id.as_ref())
        {
            let proclamations = supporters(holder).filter_map(|answer| answer.proclamation.as_ref());
            let own = proclamations.filter(|proclamation| is_by(proclamation, holder));
            let leader = own.max_by_key(|proclamation| (proclamation.term, proclamation.number)).cloned();
            let mut remaining: Vec<_> = supporters(holder).filter_map(|answer| answer.remaining).collect();
            remaining.sort_unstable_by(|one, other| other.cmp(one));
            return Some(LeaderView { leader, remaining: remaining.into_iter().nth(needed - 1) });
        }
        let answered = observed().count();
        let most = observed().map(count).max().unwrap_or(0);
        let is_vacant = answered >= needed && most + (self.electorate.nodes() - answered) < needed;
        is_vacant.then_some(LeaderView { leader: None, remaining: None })
    }
}

/// Whether a proclamation is by the holder of the lock, and not by an earlier leader.
fn is_by(proclamation: &Proclamation, holder: &LeaseId) -> bool {
    mutation::altered(Mutation::ObserveWithoutLock, proclamation.lease_id == *holder, |_| true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::operation::samples::{lease_id, proclamation};

    /// Returns a query that has received the answers in `nodes`, one word for each node. A word is
    /// the letter of the lock's holder or `-`, then the letter of the leader whose value the node
    /// has or `-`, then the number of that value. `?` stands for a missing answer, `!` for an
    /// error.
    fn leader_query(nodes: &str) -> LeaderQuery {
        let nodes: Vec<&str> = nodes.split(' ').collect();
        let mut query = LeaderQuery::new(Electorate::new(nodes.len(), Electorate::majority(nodes.len())));
        for (node, word) in nodes.iter().enumerate().filter(|(_, word)| **word != "?") {
            let holder = word.get(..1).filter(|holder| *holder != "-").map(lease_id);
            let leader = word.get(1..2).filter(|leader| *leader != "-");
            let number = word.get(2..).and_then(|number| number.parse().ok()).unwrap_or(0);
            let observed = ObserveAnswer {
                remaining: holder.as_ref().map(|_| Duration::from_secs(number)),
                lease_id: holder,
                proclamation: leader.map(|leader| proclamation(leader, 7, number, "v")),
            };
            let answer =
                if *word == "!" { Answer::Error(NodeError::ReadOnly) } else { Answer::Observed(observed) };
            query.record(node, answer);
        }
        query
    }

    /// Returns the leader and the number of its value, `-` for no leader, or an empty text while the
    /// view is undecided.
    fn view_of(nodes: &str) -> String {
        match leader_query(nodes).view() {
            None => String::new(),
            Some(LeaderView { leader: None, .. }) => "-".into(),
            Some(LeaderView { leader: Some(proclamation), .. }) => {
                format!("{}{}", proclamation.lease_id, proclamation.number)
            }
        }
    }

    #[test]
    fn the_view_has_the_holder_at_a_quorum_and_its_newest_value() {
        for (nodes, expected) in [
            ("aa1 aa2 aa1 ? ?", "a2"),
            ("aa1 aa1 ab9 -- b-", "a1"),
            ("ab1 ab2 ab1 -- --", "-"),
            ("a- a- aa1 ! ?", "a1"),
            ("aa1 aa1 bb1 bb1 ?", ""),
            ("aa1 aa1 bb1 bb1 cc1", "-"),
            ("-a1 -a1 -a1 ? ?", "-"),
            ("-a1 -a1 aa1 ? ?", ""),
            ("-a1 -a1 ! ! !", ""),
            ("aa1", "a1"),
            ("aa1 ?", ""),
        ] {
            assert_eq!(view_of(nodes), expected, "{nodes}");
        }
    }

    #[test]
    fn the_remaining_time_is_the_time_until_a_quorum_no_longer_holds() {
        let view = leader_query("aa9 aa3 aa5 aa7 --").view().unwrap();
        assert_eq!(view.remaining, Some(Duration::from_secs(5)));
    }
}
