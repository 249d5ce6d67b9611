//! All that goes wrong in one run, as data.
//!
//! Nothing here depends on what the code under test does. The faults of messages are told by
//! *which* message they meet (the 14th request from process 0 to node 2), and the delays of all
//! other messages follow from the seed and the same numbers. So one fault can be taken out of a
//! schedule without moving the others, which is what makes a failing schedule shrink.

use std::{fmt, str::FromStr, time::Duration};

use serde::{Deserialize, Serialize};

use crate::{
    RestartGuard,
    sim::{Fault, Promises, budget},
};

/// All that goes wrong in one run: the same schedule always gives the same run.
///
/// It prints as one line of JSON, and [`str::parse`] reads that line back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Schedule {
    /// From which delays, jitter and owner ids follow.
    pub seed: u64,
    /// How many nodes there are.
    pub nodes: usize,
    /// How many processes there are.
    pub processes: usize,
    /// How long a message takes, one way, if nothing is wrong.
    pub latency: Latency,
    /// How far the rate of each process's clock is off, in millionths; processes beyond the list are
    /// exact.
    #[serde(default)]
    pub process_rates: Vec<i32>,
    /// The same for the nodes.
    #[serde(default)]
    pub node_rates: Vec<i32>,
    /// What happens at a time.
    #[serde(default)]
    pub faults: Vec<TimedFault>,
    /// What happens to a message.
    #[serde(default)]
    pub messages: Vec<MessageFault>,
}

/// How long messages take, one way, if nothing is wrong: anything in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Latency {
    /// At least this.
    #[serde(with = "crate::sim::micros")]
    pub shortest: Duration,
    /// At most this.
    #[serde(with = "crate::sim::micros")]
    pub longest: Duration,
}

/// A fault and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TimedFault {
    /// When, in global time.
    #[serde(with = "crate::sim::micros")]
    pub at: Duration,
    /// What.
    pub fault: Fault,
}

/// A fault of one message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct MessageFault {
    /// Between which process ...
    pub process: usize,
    /// ... and which node.
    pub node: usize,
    /// Which way it goes.
    pub direction: Direction,
    /// Which one of those that go this way, over all connections, from 0.
    pub index: u32,
    /// What becomes of it.
    pub verdict: Verdict,
}

/// Which way a message goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Direction {
    /// From the process to the node.
    Request,
    /// From the node to the process.
    Reply,
}

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Verdict {
    /// It never arrives; the connection goes on.
    Drop,
    /// It takes longer by this, and what is behind it on the connection waits.
    Delay(#[serde(with = "crate::sim::micros")] Duration),
    /// It takes longer by this, and is overtaken.
    Overtaken(#[serde(with = "crate::sim::micros")] Duration),
    /// It arrives twice, the second time so much later.
    Duplicate(#[serde(with = "crate::sim::micros")] Duration),
    /// It never arrives, because the connection breaks.
    Reset,
}

/// How much goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Budget {
    /// What the lock tolerates: every promise holds.
    Tolerated,
    /// More than it tolerates: clocks off by more than the drift, nodes that forget. Leases may
    /// overlap, and what is promised all the same still holds.
    Beyond,
}

impl Schedule {
    /// A run in which nothing goes wrong.
    #[must_use]
    pub fn without_faults(seed: u64, nodes: usize, processes: usize) -> Self {
        Self {
            seed,
            nodes,
            processes,
            latency: Latency::default(),
            process_rates: Vec::new(),
            node_rates: Vec::new(),
            faults: Vec::new(),
            messages: Vec::new(),
        }
    }

    /// Lets something happen at a time.
    #[must_use]
    pub fn with(mut self, at: Duration, fault: Fault) -> Self {
        self.faults.push(TimedFault { at, fault });
        self
    }

    /// Lets something happen to a message.
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

    /// From when on nothing changes any more, the faults of messages apart. What never ends has
    /// changed everything by its beginning.
    #[must_use]
    pub fn calm_from(&self) -> Duration {
        let last_change = |timed: &TimedFault| match timed.until() {
            Duration::MAX => timed.at,
            until => until,
        };
        self.faults.iter().map(last_change).max().unwrap_or_default()
    }

    /// Which promises hold under this schedule, with clocks that may be off by `drift` and this
    /// restart guard.
    #[must_use]
    pub fn promises(&self, drift: f64, guard: RestartGuard) -> Promises {
        budget::promises(self, drift, guard)
    }
}

impl Latency {
    /// Between these two.
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

impl TimedFault {
    /// A fault and its time.
    #[must_use]
    pub fn new(at: Duration, fault: Fault) -> Self {
        Self { at, fault }
    }

    /// When it is over; [`Duration::MAX`] if it never is.
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
