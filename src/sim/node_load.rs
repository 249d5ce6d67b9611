//! The work of a node during a run.

use std::time::Duration;

use crate::sim::clock::micros;

/// The work of one node during a run: the calls that the node executed, with their operations.
///
/// The registrations of connections are calls, too. New connections and subscriptions are no calls, but
/// keep the node busy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeLoad {
    /// The number of calls.
    pub calls: u64,
    /// The number of operations in the calls.
    pub operations: u64,
    /// The sum of the [processing times](crate::sim::ProcessingTime) of all messages.
    pub busy: Duration,
    /// The number of calls in each second of the run. The list ends with the last second that has a
    /// call.
    pub calls_per_second: Vec<u64>,
}

impl NodeLoad {
    /// Counts the execution of a call at this time, in microseconds since the start of the run.
    pub(crate) fn executed(&mut self, operations: usize, now: u64) {
        self.calls += 1;
        self.operations += u64::try_from(operations).unwrap_or(u64::MAX);
        let second = usize::try_from(now / micros(Duration::from_secs(1))).unwrap_or(usize::MAX);
        if self.calls_per_second.len() <= second {
            self.calls_per_second.resize(second + 1, 0);
        }
        if let Some(calls) = self.calls_per_second.get_mut(second) {
            *calls += 1;
        }
    }
}
