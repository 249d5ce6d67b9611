//! The settings of an attempt.

use std::time::Duration;

use crate::{
    algorithm::{tally::Electorate, validity::Validity},
    mutation::{self, Mutation},
};

/// The number of shortest hedges in a node timeout.
pub(crate) const HEDGE_SHARE: u32 = 8;

/// The multiple of the usual response time of a node for which an attempt waits for that node. With a smaller multiple,
/// an answer that takes a little longer than usual would make clients use different queue nodes.
const HEDGE_FACTOR: u32 = 4;

/// The settings of an attempt. The settings of a lock are the settings of an attempt that is not repeated and whose
/// queue node answers quickly.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptConfig {
    pub(crate) electorate: Electorate,
    pub(crate) validity: Validity,
    pub(crate) ttl: Duration,
    pub(crate) node_timeout: Duration,
    pub(crate) attempt_timeout: Duration,
    /// The time for which an attempt waits for a vote that may decide the attempt.
    pub(crate) vote_timeout: Duration,
    /// The time after which an attempt asks the next node, or stops waiting for a node without an answer.
    pub(crate) hedge: Duration,
}

impl AttemptConfig {
    /// Returns the settings of an attempt of a call that waits, and whose quorum timeout ends after this time.
    ///
    /// A node answers requests in the order of their arrival. Therefore a second request on the same connection gets
    /// its answer later than the first. If nodes have more work than they can do in a node timeout, attempts that are
    /// given up after that time double the work of the nodes, and no attempt succeeds.
    ///
    /// After the end of the quorum timeout, a wait for a vote is no longer than a node timeout, because the call ends
    /// with the attempt.
    pub(crate) fn of_waiting_call(self, quorum_timeout: Duration) -> Self {
        let vote_timeout = self.attempt_timeout.min(quorum_timeout).max(self.node_timeout);
        let vote_timeout = mutation::altered(Mutation::ImpatientVotes, vote_timeout, |_| self.node_timeout);
        Self { vote_timeout, ..self }
    }

    /// Returns the settings of an attempt whose queue node usually answers in this time.
    ///
    /// If the hedge did not grow with the response time, every slow answer of the queue node would split the queue, so
    /// that busy nodes would get more requests.
    pub(crate) fn with_usual_response_time(self, usual: Duration) -> Self {
        let shortest = self.shortest_hedge();
        let longest = self.node_timeout.max(shortest);
        let hedge = usual.saturating_mul(HEDGE_FACTOR).clamp(shortest, longest);
        Self { hedge: mutation::altered(Mutation::FixedHedge, hedge, |_| shortest), ..self }
    }

    /// Returns the time for which a request of the attempt may be unsent.
    ///
    /// If the attempt waits for a vote for longer than a node timeout, this time is shorter than the wait. Therefore
    /// the attempt distinguishes a node that has received the request, and is late, from a node that the client could
    /// not send the request to.
    pub(crate) fn request_timeout(&self) -> Duration {
        self.vote_timeout.saturating_sub(self.shortest_hedge()).max(self.node_timeout)
    }

    /// Returns the hedge at nodes that answer quickly.
    pub(crate) fn shortest_hedge(&self) -> Duration {
        self.node_timeout / HEDGE_SHARE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::attempt::tests::config;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_waiting_call_waits_for_votes_until_the_attempt_timeout() {
        let timeout = |quorum_timeout| config(3).of_waiting_call(quorum_timeout).vote_timeout;
        assert_eq!(config(3).vote_timeout, millis(1_000));
        assert_eq!(timeout(Duration::MAX), millis(2_000));
    }

    #[test]
    fn a_wait_for_votes_ends_with_the_quorum_timeout_or_a_node_timeout() {
        let timeout = |quorum_timeout| config(3).of_waiting_call(quorum_timeout).vote_timeout;
        assert_eq!(timeout(millis(1_500)), millis(1_500));
        assert_eq!(timeout(Duration::ZERO), millis(1_000));
    }

    #[test]
    fn the_hedge_is_four_usual_response_times_within_the_node_timeout() {
        let hedge = |usual| config(3).with_usual_response_time(millis(usual)).hedge;
        assert_eq!([0, 31, 32, 100, 250, 9_000].map(hedge), [125, 125, 128, 400, 1_000, 1_000].map(millis));
    }

    #[test]
    fn a_request_may_be_unsent_for_less_time_than_a_wait_for_its_vote() {
        assert_eq!(config(3).request_timeout(), millis(1_000), "never less than a node timeout");
        assert_eq!(config(3).of_waiting_call(Duration::MAX).request_timeout(), millis(1_875));
    }
}
