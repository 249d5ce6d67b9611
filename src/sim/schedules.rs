//! Random schedules for proptest and for a [`Campaign`](crate::sim::Campaign).
//!
//! The strategy draws indices of nodes and processes before the numbers of nodes and processes are known.
//! `Schedule::fit` then maps the indices into their ranges.

use std::{ops::RangeInclusive, time::Duration};

use proptest::{prelude::*, sample::select};

use crate::sim::{
    Budget, Direction, Fault, Latency, Memory, MessageFault, PartitionDirection, Schedule, TimedFault,
    Verdict,
};

/// The parameters of a proptest strategy of random schedules. A failing schedule shrinks to a failing
/// schedule with fewer and shorter faults.
///
/// A fault lasts at most 25 s. Locks under test should have a ttl of at most 20 s, so that some faults
/// outlast a lease.
///
/// # Examples
///
/// ```
/// use proptest::{prelude::*, test_runner::TestRunner};
/// use redquorum::sim::{Promises, Schedules, Simulation};
///
/// let schedules = Schedules::tolerated().nodes([3, 5]).processes(1..=2).strategy();
/// let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(10) };
/// TestRunner::new(config).run(&schedules, |schedule| {
///     let report = Simulation::new(schedule).run(|process| async move {
///         let quorum = process.quorum().unwrap();
///         drop(quorum.red_lock("r").try_lock().await);
///     });
///     report.check(&Promises::ALL).map_err(|failure| TestCaseError::fail(failure.to_string()))
/// }).unwrap();
/// ```
#[derive(Clone, Debug)]
#[must_use = "schedules are drawn from its strategy"]
pub struct Schedules {
    budget: Budget,
    nodes: Vec<usize>,
    processes: RangeInclusive<usize>,
    within: Duration,
    most_faults: usize,
    most_messages: usize,
    drift: f64,
}

/// The range of a drawn index of a node or a process.
const ANY: RangeInclusive<usize> = 0..=63;

/// The share of schedules with a split network.
const SHARE_WITH_SPLIT: f64 = 0.15;

/// The time from the start of a run in which most processes have messages in flight, in microseconds.
const BEGINNING: u64 = 100_000;

impl Schedules {
    /// Returns the parameters of schedules under which every promise holds, if the quorum has a restart
    /// guard.
    pub fn tolerated() -> Self {
        Self::within_budget(Budget::Tolerated)
    }

    /// Returns the parameters of schedules that may break an assumption of the lock.
    /// [`Schedule::promises`] returns the promises that hold under one of the schedules.
    pub fn beyond() -> Self {
        Self::within_budget(Budget::Beyond)
    }

    /// Returns the parameters of schedules of this budget.
    pub fn within_budget(budget: Budget) -> Self {
        Self {
            budget,
            nodes: vec![1, 2, 3, 4, 5, 7],
            processes: 1..=4,
            within: Duration::from_secs(30),
            most_faults: 6,
            most_messages: 10,
            drift: 0.01,
        }
    }

    /// Sets the possible numbers of nodes (default: 1, 2, 3, 4, 5 or 7). If the list is empty,
    /// [`strategy`](Self::strategy) panics.
    pub fn nodes(mut self, nodes: impl IntoIterator<Item = usize>) -> Self {
        self.nodes = nodes.into_iter().collect();
        self
    }

    /// Sets the range of the number of processes (default: 1 to 4).
    pub fn processes(mut self, processes: RangeInclusive<usize>) -> Self {
        self.processes = processes;
        self
    }

    /// Sets the latest start of a fault (default: 30 s).
    pub fn within(mut self, within: Duration) -> Self {
        self.within = within;
        self
    }

    /// Sets the largest numbers of timed faults and of message faults (default: 6 and 10). If timed
    /// faults are allowed, some schedules have a split network: the partitions of the split come in
    /// addition to these numbers.
    pub fn faults(mut self, timed: usize, of_messages: usize) -> Self {
        (self.most_faults, self.most_messages) = (timed, of_messages);
        self
    }

    /// Sets the drift of the quorums under test (default: 0.01). With [`Budget::Tolerated`], the rate of
    /// each clock is wrong by at most half of `drift`, so two clocks differ by at most `drift`. With
    /// [`Budget::Beyond`], each rate is wrong by at most `drift`, so two clocks may differ by twice
    /// `drift`.
    pub fn drift(mut self, drift: f64) -> Self {
        self.drift = drift;
        self
    }

    /// Returns the strategy.
    pub fn strategy(&self) -> impl Strategy<Value = Schedule> + Clone + Send + Sync + use<> {
        let faults = prop::collection::vec(self.timed_fault(), 0..=self.most_faults);
        let messages = prop::collection::vec(message_fault(), 0..=self.most_messages);
        let size = (select(self.nodes.clone()), self.processes.clone());
        let rates = (self.rates(), self.rates());
        let may_split = self.most_faults > 0;
        let split = prop::option::weighted(SHARE_WITH_SPLIT, self.split());
        (any::<u64>().no_shrink(), size, latency(), rates, (faults, split), messages).prop_map(
            move |(seed, (nodes, processes), latency, rates, (faults, split), messages)| {
                let mut schedule = Schedule::without_faults(seed, nodes, processes);
                schedule.latency = latency;
                (schedule.process_rates, schedule.node_rates) = rates;
                schedule.process_rates.truncate(processes);
                schedule.node_rates.truncate(nodes);
                schedule.faults = faults;
                schedule.faults.extend(
                    split.iter().filter(|_| may_split).flat_map(|split| split.faults(nodes, processes)),
                );
                schedule.messages = messages;
                schedule.fit();
                schedule
            },
        )
    }

    fn rates(&self) -> impl Strategy<Value = Vec<i32>> + Clone + use<> {
        let largest = millionths(match self.budget {
            Budget::Tolerated => self.drift / 2.0,
            Budget::Beyond => self.drift,
        });
        // Extreme rates reveal most errors.
        let rate = prop_oneof![Just(0), Just(largest), Just(-largest), -largest..=largest];
        prop::collection::vec(rate, 0..=8)
    }

    fn timed_fault(&self) -> impl Strategy<Value = TimedFault> + Clone + use<> {
        let at = self.at();
        let beyond_weight = match self.budget {
            Budget::Tolerated => 0,
            Budget::Beyond => 3,
        };
        let fault = prop_oneof![2 => tolerated(), beyond_weight => beyond()];
        (at, fault).prop_map(|(at, fault)| TimedFault { at, fault })
    }

    /// Draws a time: any time, or a time near the start, when most processes have messages in
    /// flight.
    fn at(&self) -> impl Strategy<Value = Duration> + Clone + use<> {
        let within = u64::try_from(self.within.as_micros()).unwrap_or(u64::MAX);
        prop_oneof![0..=within, 0..=within.min(BEGINNING)].prop_map(Duration::from_micros)
    }

    fn split(&self) -> impl Strategy<Value = Split> + Clone + use<> {
        (self.at(), lasts(), way(), any::<u64>(), any::<u64>())
            .prop_map(|(at, lasts, way, nodes, processes)| Split { at, lasts, way, nodes, processes })
    }
}

/// A split network. Each process and each node is on one of two sides, and messages from one side to the
/// other side are held back in the direction `way`.
#[derive(Clone, Debug)]
struct Split {
    at: Duration,
    lasts: Duration,
    way: PartitionDirection,
    /// The sides of the nodes, one bit per node.
    nodes: u64,
    /// The sides of the processes, one bit per process.
    processes: u64,
}

impl Split {
    fn faults(&self, nodes: usize, processes: usize) -> impl Iterator<Item = TimedFault> + use<> {
        let Self { at, lasts, way, nodes: node_sides, processes: process_sides } = *self;
        let side = |sides: u64, number: usize| sides >> (number % 64) & 1;
        let pairs = (0..processes).flat_map(move |process| (0..nodes).map(move |node| (process, node)));
        pairs
            .filter(move |(process, node)| side(process_sides, *process) != side(node_sides, *node))
            .map(move |(process, node)| TimedFault::new(at, Fault::Partition { process, node, way, lasts }))
    }
}

impl Schedule {
    /// Maps the indices of nodes and processes into their ranges. Of the steps of a node by one
    /// millisecond, keeps only the first step.
    fn fit(&mut self) {
        let (nodes, processes) = (self.nodes.max(1), self.processes.max(1));
        for timed in &mut self.faults {
            timed.fault.fit(nodes, processes);
        }
        for message in &mut self.messages {
            message.node %= nodes;
            message.process %= processes;
        }
        // Many small steps of a node could together exceed the margin of the validity.
        let mut has_stepped = vec![false; nodes];
        self.faults.retain(|timed| match timed.fault {
            Fault::Step { node, by: 1 } => {
                has_stepped.get_mut(node).is_some_and(|has| !std::mem::replace(has, true))
            }
            _ => true,
        });
    }
}

impl Fault {
    fn fit(&mut self, nodes: usize, processes: usize) {
        match self {
            Self::Pause { process, .. } | Self::Freeze { process, .. } | Self::Kill { process } => {
                *process %= processes
            }
            Self::Crash { node, .. }
            | Self::Hang { node, .. }
            | Self::Slow { node, .. }
            | Self::Far { node, .. }
            | Self::Flush { node }
            | Self::Evict { node }
            | Self::Step { node, .. } => *node %= nodes,
            Self::Partition { process, node, .. } => {
                *process %= processes;
                *node %= nodes;
            }
        }
    }
}

/// Draws a fault that the lock tolerates with a restart guard.
fn tolerated() -> impl Strategy<Value = Fault> + Clone {
    prop_oneof![
        3 => (ANY, lasts()).prop_map(|(process, lasts)| Fault::Pause { process, lasts }),
        1 => ANY.prop_map(|process| Fault::Kill { process }),
        4 => (ANY, lasts(), memory()).prop_map(|(node, lasts, memory)| Fault::Crash { node, lasts, memory }),
        1 => ANY.prop_map(|node| Fault::Flush { node }),
        3 => (ANY, lasts()).prop_map(|(node, lasts)| Fault::Hang { node, lasts }),
        2 => (ANY, lasts(), 1_u64..=400).prop_map(|(node, lasts, by)| Fault::Slow {
            node,
            lasts,
            by: Duration::from_millis(by),
        }),
        1 => (ANY, prop_oneof![Just(1_i64), -5_000..=-1_i64]).prop_map(|(node, by)| Fault::Step { node, by }),
        4 => (ANY, ANY, way(), lasts())
            .prop_map(|(process, node, way, lasts)| Fault::Partition { process, node, way, lasts }),
    ]
}

/// Draws a fault that breaks an assumption.
fn beyond() -> impl Strategy<Value = Fault> + Clone {
    prop_oneof![
        1 => ANY.prop_map(|node| Fault::Evict { node }),
        1 => (ANY, 3_i64..=30_000).prop_map(|(node, by)| Fault::Step { node, by }),
        1 => (ANY, lasts()).prop_map(|(process, lasts)| Fault::Freeze { process, lasts }),
    ]
}

/// Draws the memory of a node after a crash. With a restart guard, the lock tolerates each memory.
fn memory() -> impl Strategy<Value = Memory> + Clone {
    prop_oneof![
        2 => Just(Memory::Kept),
        1 => Just(Memory::Lost),
        1 => (1_u64..=10_000).prop_map(|ago| Memory::AsOf(Duration::from_millis(ago))),
    ]
}

fn message_fault() -> impl Strategy<Value = MessageFault> + Clone {
    let direction = prop_oneof![Just(Direction::Request), Just(Direction::Reply)];
    let verdict = prop_oneof![
        2 => Just(Verdict::Drop),
        3 => lasts().prop_map(Verdict::Delay),
        3 => lasts().prop_map(Verdict::Overtaken),
        2 => lasts().prop_map(Verdict::Duplicate),
        2 => Just(Verdict::Reset),
    ];
    // Small indices have more weight, because most processes send few messages.
    let index = prop_oneof![0_u32..12, 0_u32..40];
    (ANY, ANY, direction, index, verdict).prop_map(|(process, node, direction, index, verdict)| {
        MessageFault { process, node, direction, index, verdict }
    })
}

fn way() -> impl Strategy<Value = PartitionDirection> + Clone {
    prop_oneof![
        Just(PartitionDirection::Requests),
        Just(PartitionDirection::Replies),
        Just(PartitionDirection::Both)
    ]
}

/// Draws a duration of up to 50 ms, of up to 3 s, or of up to 25 s, with equal shares.
fn lasts() -> impl Strategy<Value = Duration> + Clone {
    prop_oneof![1_u64..=50, 50_u64..=3_000, 3_000_u64..=25_000].prop_map(Duration::from_millis)
}

fn latency() -> impl Strategy<Value = Latency> + Clone {
    prop_oneof![
        4 => Just(Latency::default()),
        1 => Just(Latency::between(Duration::from_micros(50), Duration::from_micros(60))),
        1 => Just(Latency::between(Duration::from_millis(1), Duration::from_millis(40))),
    ]
}

/// Returns a share in whole millionths, rounded down.
fn millionths(share: f64) -> i32 {
    // The cast truncates and saturates.
    ((share * 1_000_000.0) as i32).max(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RestartGuard, sim::Promises};

    #[test]
    fn a_share_is_rounded_down_to_millionths() {
        assert_eq!(
            [0.01, 0.005, 0.000_001_9, 0.0, -1.0, f64::NAN].map(millionths),
            [10_000, 5_000, 1, 0, 0, 0]
        );
    }

    proptest! {
        #[test]
        fn tolerated_schedules_break_no_assumption(
            schedule in Schedules::tolerated().strategy()
        ) {
            prop_assert_eq!(schedule.promises(0.01, RestartGuard::PerConnection), Promises::ALL);
        }

        #[test]
        fn each_fault_has_an_existing_target(schedule in Schedules::beyond().strategy()) {
            for message in &schedule.messages {
                prop_assert!(message.process < schedule.processes && message.node < schedule.nodes);
            }
            prop_assert!(schedule.process_rates.len() <= schedule.processes);
            for timed in &schedule.faults {
                let (process, node) = match timed.fault {
                    Fault::Pause { process, .. } | Fault::Freeze { process, .. } | Fault::Kill { process } => {
                        (process, 0)
                    }
                    Fault::Crash { node, .. }
                    | Fault::Hang { node, .. }
                    | Fault::Slow { node, .. }
                    | Fault::Far { node, .. }
                    | Fault::Flush { node }
                    | Fault::Evict { node }
                    | Fault::Step { node, .. } => (0, node),
                    Fault::Partition { process, node, .. } => (process, node),
                };
                prop_assert!(process < schedule.processes && node < schedule.nodes, "{:?}", timed.fault);
            }
        }
    }
}
