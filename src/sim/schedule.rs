//! The faults of one run, as data.
//!
//! A schedule does not depend on the behaviour of the code under test. A message fault names its
//! message by number, such as the 14th request from process 0 to node 2. The latency of each message
//! follows from the seed, the process, the node, the direction and this number. Therefore the removal
//! of one fault changes no other fault, and a failing schedule can be shrunk fault by fault.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    RestartGuard,
    sim::{Fault, Promises, budget},
};

/// The nodes, processes, latencies, clocks and faults of one run. In one build, the same schedule and the
/// same programs always give the same run.
///
/// A schedule prints as one line of JSON, which [`str::parse`] reads back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    /// The seed of all random numbers of the run: latencies, initial times of clocks, jitter, client
    /// ids, lease ids, and the numbers of [`Process::random`](crate::sim::Process::random).
    pub seed: u64,
    /// The number of nodes.
    pub nodes: usize,
    /// The number of processes.
    pub processes: usize,
    /// The time that a message takes, one way, without a fault.
    pub latency: Latency,
    /// The error of the clock rate of each process, in millionths. A process without an entry has an
    /// exact clock rate.
    #[serde(default)]
    pub process_rates: Vec<i32>,
    /// The error of the clock rate of each node, in millionths. A node without an entry has an exact
    /// clock rate.
    #[serde(default)]
    pub node_rates: Vec<i32>,
    /// The time for which a node is busy with a message, without a fault.
    #[serde(default, skip_serializing_if = "ProcessingTime::is_zero")]
    pub processing: ProcessingTime,
    /// The timed faults.
    #[serde(default)]
    pub faults: Vec<TimedFault>,
    /// The message faults.
    #[serde(default)]
    pub messages: Vec<MessageFault>,
}

/// The range of the time that a message takes, one way, without a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Latency {
    /// The lower bound.
    #[serde(with = "crate::sim::micros")]
    pub shortest: Duration,
    /// The upper bound.
    #[serde(with = "crate::sim::micros")]
    pub longest: Duration,
}

/// The time for which a node is busy with a message, without a fault.
///
/// A node has one thread, which executes messages in the order of their arrival. Therefore the response
/// time of a node grows with the number of messages that arrive together. Without a processing time, a
/// node executes each message at its arrival.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
/// use redquorum::sim::{ProcessingTime, Schedule, Simulation};
///
/// let mut schedule = Schedule::without_faults(1, 3, 2);
/// schedule.processing =
///     ProcessingTime::new(Duration::from_micros(20), Duration::from_micros(30));
/// let report = Simulation::new(schedule).run(|process| async move {
///     drop(process.quorum().unwrap().red_lock("invoice:42").lock().await.unwrap());
/// });
/// assert!(report.loads.iter().all(|load| load.busy > Duration::from_micros(50)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ProcessingTime {
    /// The time of each message, such as a call or a new connection.
    #[serde(with = "crate::sim::micros")]
    pub per_message: Duration,
    /// The additional time of each operation in a message.
    #[serde(with = "crate::sim::micros")]
    pub per_operation: Duration,
}

/// A fault and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TimedFault {
    /// The start of the fault, in simulated time since the start of the run.
    #[serde(with = "crate::sim::micros")]
    pub at: Duration,
    /// The fault.
    pub fault: Fault,
}

/// A fault of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessageFault {
    /// The process that sends or receives the message.
    pub process: usize,
    /// The node that receives or sends the message.
    pub node: usize,
    /// The direction of the message.
    pub direction: Direction,
    /// The index of the message among all messages of this direction between process and node, over
    /// all connections, from 0.
    pub index: u32,
    /// The effect on the message.
    pub verdict: Verdict,
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Direction {
    /// From the process to the node.
    Request,
    /// From the node to the process.
    Reply,
}

/// The effect of a fault on a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Verdict {
    /// The loss of the message. The connection persists.
    Drop,
    /// A delay of the message, and of all later messages of the same direction on the connection.
    Delay(#[serde(with = "crate::sim::micros")] Duration),
    /// A delay of the message alone. Later messages may overtake the message.
    Overtaken(#[serde(with = "crate::sim::micros")] Duration),
    /// A second delivery of the message, this long after the first.
    Duplicate(#[serde(with = "crate::sim::micros")] Duration),
    /// A break of the connection, with the loss of the message.
    Reset,
}

/// The severity of the faults of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Budget {
    /// Faults that the lock tolerates: with a restart guard, every promise holds.
    Tolerated,
    /// Also faults that break an assumption: clocks that differ by more than the drift, step forward
    /// or stop, and nodes that evict locks. Under these faults, leases may overlap. Promises that do
    /// not depend on the broken assumption still hold.
    Beyond,
}

impl Schedule {
    /// Returns a schedule without faults.
    #[must_use]
    pub fn without_faults(seed: u64, nodes: usize, processes: usize) -> Self {
        Self {
            seed,
            nodes,
            processes,
            latency: Latency::default(),
            process_rates: Vec::new(),
            node_rates: Vec::new(),
            processing: ProcessingTime::default(),
            faults: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Adds a timed fault.
    #[must_use]
    pub fn with(mut self, at: Duration, fault: Fault) -> Self {
        self.faults.push(TimedFault { at, fault });
        self
    }

    /// Adds a message fault.
    #[must_use]
    pub fn with_message(
        mut self,
        process: usize,
        node: usize,
        direction: Direction,
        index: u32,
        verdict: Verdict,
    ) -> Self {
        self.messages.push(MessageFault { process, node, direction, index, verdict });
        self
    }

    /// Returns the latest end of a timed fault; zero without timed faults. A fault without an end
    /// counts with its start. Message faults do not count.
    #[must_use]
    pub fn faults_end(&self) -> Duration {
        let last_change = |timed: &TimedFault| match timed.until() {
            Duration::MAX => timed.at,
            until => until,
        };
        self.faults.iter().map(last_change).max().unwrap_or_default()
    }

    /// Returns the promises that hold under this schedule, for clocks whose rates may differ by
    /// `drift` and for this restart guard.
    #[must_use]
    pub fn promises(&self, drift: f64, guard: RestartGuard) -> Promises {
        budget::promises(self, drift, guard)
    }
}

impl Latency {
    /// Returns a range with these bounds. If `longest` is less than `shortest`, both bounds are
    /// `shortest`.
    #[must_use]
    pub fn between(shortest: Duration, longest: Duration) -> Self {
        Self { shortest, longest: longest.max(shortest) }
    }
}

impl Default for Latency {
    /// 0.2 to 2 ms: within one region.
    fn default() -> Self {
        Self::between(Duration::from_micros(200), Duration::from_millis(2))
    }
}

impl ProcessingTime {
    /// Returns a processing time with these parts.
    #[must_use]
    pub fn new(per_message: Duration, per_operation: Duration) -> Self {
        Self { per_message, per_operation }
    }

    /// Returns the time of a message with this number of operations.
    pub(crate) fn of(&self, operations: usize) -> Duration {
        let operations = u32::try_from(operations).unwrap_or(u32::MAX);
        self.per_message.saturating_add(self.per_operation.saturating_mul(operations))
    }

    fn is_zero(&self) -> bool {
        *self == Self::default()
    }
}

impl TimedFault {
    /// Creates a fault with its time.
    #[must_use]
    pub fn new(at: Duration, fault: Fault) -> Self {
        Self { at, fault }
    }

    /// Returns the end of the fault: the start of an instantaneous fault, and [`Duration::MAX`] for a
    /// fault without an end.
    #[must_use]
    pub fn until(&self) -> Duration {
        self.at.saturating_add(self.fault.lasts())
    }
}

impl fmt::Display for Schedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for Schedule {
    type Err = serde_json::Error;

    fn from_str(line: &str) -> Result<Self, Self::Err> {
        serde_json::from_str(line)
    }
}
