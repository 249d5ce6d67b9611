//! Scenarios S90 and S95: nodes that receive more work at once than they can do in a node timeout.
//!
//! Each node is one thread with a processing time for each message and each operation. The figures are grants, errors,
//! and calls at all nodes for each grant. Without the rules for busy nodes, attempts are given up while their answers
//! are on the way, and are rolled back and repeated, so the nodes are busy with work for which no client waits.
//!
//! The first tier has small forms: fewer clients, and more work in each message, so that the nodes are as busy. The large
//! forms (`s90_large_`) run in `tests/run.sh --all`.

use std::sync::{Arc, Mutex};

use super::*;
use crate::{
    Error,
    sim::{Memory, ProcessingTime},
    values::Resource,
};

/// The time for which each client holds its lock or permit.
const HOLD: Duration = millis(1);

/// The time for which all clients wait before the release.
const WAIT: Duration = Duration::from_secs(7);

/// The longest time from the begin to the end of a run.
const MAX_TIME: Duration = Duration::from_secs(90);

/// The name of the contended resource.
const RESOURCE: &str = "r";

/// The clients, nodes and processing time of a run.
#[derive(Clone)]
struct Load {
    clients: usize,
    /// The processing time of each message, and of each operation.
    work: Duration,
    /// The time within which all clients begin.
    arrival: Duration,
    /// The faults, with their times after the begin.
    faults: Vec<(Duration, Fault)>,
    /// A rule that is off.
    broken: Option<Mutation>,
    seed: u64,
}

/// The figures of a run.
#[derive(Debug)]
struct Figures {
    /// Whether all calls have ended.
    has_ended: bool,
    grants: usize,
    errors: Vec<String>,
    /// The number of leases that were lost.
    lost: usize,
    /// The calls that all nodes executed from the release or begin to the last grant, for each grant.
    calls_per_grant: f64,
    /// The longest time without a grant, after the release or begin.
    longest_gap: Duration,
    /// The time from the release or begin to the last grant.
    took: Duration,
    /// The number of attempts that had locked at a node, and led to no lease.
    rolled_back: u64,
    /// The mean and the largest number of nodes at which clients waited for [`RESOURCE`].
    queues: (f64, usize),
    trace: u64,
}

/// The results of all clients.
#[derive(Debug, Default)]
struct Results {
    grants: Vec<Duration>,
    errors: Vec<String>,
    lost: usize,
    queues: Vec<usize>,
}

impl Load {
    fn new(clients: usize, work: Duration) -> Self {
        Self { clients, work, arrival: SECOND, faults: Vec::new(), broken: None, seed: 1 }
    }

    fn within(self, arrival: Duration) -> Self {
        Self { arrival, ..self }
    }

    /// Adds a fault, at this time after the release.
    fn with_after_release(self, after: Duration, fault: Fault) -> Self {
        let release = self.arrival + WAIT;
        self.with(release + after, fault)
    }

    /// Adds a fault, at this time after the begin.
    fn with(mut self, after: Duration, fault: Fault) -> Self {
        self.faults.push((after, fault));
        self
    }

    fn without(self, rule: Mutation) -> Self {
        Self { broken: Some(rule), ..self }
    }

    /// Returns the time at which the clients begin. All clients have connected before, one after the other.
    fn begin(&self) -> Duration {
        SECOND * u32::try_from((self.connect_time() * self.clients() + 2 * SECOND).as_secs() + 1).unwrap()
    }

    /// Returns the time at which the resource is released, after all clients have begun to wait.
    fn release(&self) -> Duration {
        self.begin() + self.arrival + WAIT
    }

    /// Returns the time in which one client connects.
    fn connect_time(&self) -> Duration {
        8 * self.work
    }

    fn clients(&self) -> u32 {
        u32::try_from(self.clients).unwrap()
    }

    /// Runs `program` once for each client, and `prepare` from the start of the run. The last process prepares, and
    /// observes the queues. Calls and grants count from `from` on.
    fn run<Program, Preparation>(
        &self,
        from: Duration,
        program: impl Fn(Process, Quorum, Arc<Mutex<Results>>) -> Program + Clone + Send + Sync + 'static,
        prepare: impl Fn(Process, Quorum) -> Preparation + Clone + Send + Sync + 'static,
    ) -> Figures
    where
        Program: Future<Output = ()> + Send + 'static,
        Preparation: Future<Output = ()> + Send + 'static,
    {
        let _broken = break_rule(self.broken);
        let begin = self.begin();
        let mut schedule = Schedule::without_faults(self.seed, 3, self.clients + 1);
        schedule.latency = Latency::between(micros(100), micros(300));
        schedule.processing = ProcessingTime::new(self.work, self.work);
        for (after, fault) in &self.faults {
            schedule = schedule.with(begin + *after, fault.clone());
        }
        let results = Arc::<Mutex<Results>>::default();
        let load = self.clone();
        let report = Simulation::new(schedule).horizon(begin + MAX_TIME).budget(u64::MAX).run(|process| {
            let (load, results) = (load.clone(), Arc::clone(&results));
            let (program, prepare) = (program.clone(), prepare.clone());
            async move {
                if process.index() == load.clients {
                    prepare(process.clone(), process.quorum().unwrap()).await;
                    return load.observe(&process, &results).await;
                }
                let place = u32::try_from(process.index()).unwrap();
                process.sleep(load.connect_time() * place).await;
                let quorum = process.quorum().unwrap();
                let spread = u64::try_from(load.arrival.as_micros()).unwrap().max(1);
                let arrives = begin + micros(process.random(7) % spread);
                process.sleep(arrives.saturating_sub(global_time(&process))).await;
                program(process.clone(), quorum, results).await;
            }
        });
        assert!(matches!(report.end, End::Done | End::Horizon), "{:?}", report.end);
        assert_keeps(&report, &Promises::ALL.without(Promise::Residue).without(Promise::Liveness));
        Self::figures(from, &report, std::mem::take(&mut *results.lock().unwrap()))
    }

    /// Records the number of nodes with a wait queue, until all clients have a result.
    async fn observe(&self, process: &Process, results: &Mutex<Results>) {
        let resource = Resource::new(RESOURCE).unwrap();
        loop {
            process.sleep(millis(100)).await;
            let queues = process.world().lock().wait_queues(&resource);
            let mut results = results.lock().unwrap();
            if results.grants.len() + results.errors.len() >= self.clients {
                return;
            }
            results.queues.extend((queues > 0).then_some(queues));
        }
    }

    fn figures(from: Duration, report: &Report, results: Results) -> Figures {
        let Results { mut grants, errors, lost, queues } = results;
        grants.sort_unstable();
        let last = grants.last().copied().unwrap_or(from);
        let seconds = usize::try_from(from.as_secs()).unwrap()..=usize::try_from(last.as_secs()).unwrap();
        let calls_of = |calls: &Vec<u64>| -> u64 {
            calls
                .iter()
                .enumerate()
                .filter(|(second, _)| seconds.contains(second))
                .map(|(_, calls)| calls)
                .sum()
        };
        let calls: u64 = report.loads.iter().map(|load| calls_of(&load.calls_per_second)).sum();
        let times: Vec<Duration> = std::iter::once(from).chain(grants.iter().copied()).collect();
        let all_granted = turns(report).len();
        Figures {
            has_ended: matches!(report.end, End::Done),
            grants: grants.len(),
            errors,
            lost,
            calls_per_grant: calls as f64 / grants.len().max(1) as f64,
            longest_gap: times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default(),
            took: last - from,
            rolled_back: report.rounds.saturating_sub(u64::try_from(all_granted).unwrap()),
            queues: (
                queues.iter().sum::<usize>() as f64 / queues.len().max(1) as f64,
                queues.iter().copied().max().unwrap_or(0),
            ),
            trace: report.trace,
        }
    }

    /// Runs clients that wait for one lock. Another client holds the lock until the release.
    fn one_lock(&self) -> Figures {
        let release = self.release();
        self.run(
            release,
            |process, quorum, results| async move {
                let guard = record(&process, &results, quorum.red_lock(RESOURCE).lock().await);
                process.sleep(HOLD).await;
                drop(guard);
            },
            move |process, quorum| async move {
                let guard = quorum.red_lock(RESOURCE).lock().await.unwrap();
                process.sleep(release - global_time(&process)).await;
                drop(guard);
            },
        )
    }

    /// Runs clients that wait for one of `permits` permits. Another client holds all permits until the release.
    fn semaphore(&self, permits: u32) -> Figures {
        let release = self.release();
        self.run(
            release,
            move |process, quorum, results| async move {
                let permit = record(&process, &results, quorum.semaphore(RESOURCE, permits).acquire().await);
                process.sleep(HOLD).await;
                drop(permit);
            },
            move |process, quorum| async move {
                let mut held = Vec::new();
                for _ in 0..permits {
                    held.push(quorum.semaphore(RESOURCE, permits).acquire().await.unwrap());
                }
                process.sleep(release.saturating_sub(global_time(&process))).await;
                drop(held);
            },
        )
    }

    /// Runs clients that lock `each` free resources at once, and hold the leases for this time.
    fn free_locks(&self, each: usize, held: Duration) -> Figures {
        let nothing = |_, _| async {};
        self.run(
            self.begin(),
            move |process, quorum, results| async move {
                let locks = (0..each).map(|number| {
                    let lock = quorum.red_lock(format!("{}-{number}", process.index()));
                    let (process, results) = (process.clone(), Arc::clone(&results));
                    async move { record(&process, &results, lock.lock().await) }
                });
                let guards = futures::future::join_all(locks).await;
                process.sleep(held).await;
                let lost = guards.iter().flatten().filter(|guard| !guard.is_valid()).count();
                results.lock().unwrap().lost += lost;
            },
            nothing,
        )
    }
}

/// Returns the time since the start of the run.
fn global_time(process: &Process) -> Duration {
    Duration::from_micros(process.world().lock().now())
}

/// Records the result of a call.
fn record<T>(process: &Process, results: &Mutex<Results>, result: Result<T, Error>) -> Option<T> {
    let mut results = results.lock().unwrap();
    match result {
        Ok(acquired) => {
            results.grants.push(global_time(process));
            Some(acquired)
        }
        Err(error) => {
            results.errors.push(error.to_string());
            None
        }
    }
}

/// Prints the figures as one line of a table.
fn show(name: &str, figures: &Figures) {
    let Figures {
        has_ended,
        grants,
        errors,
        lost,
        calls_per_grant,
        longest_gap,
        took,
        rolled_back,
        queues,
        ..
    } = figures;
    let (mean, most) = queues;
    let name = if *has_ended { name.to_owned() } else { format!("{name} (not ended)") };
    eprintln!(
        "| {name} | {grants} | {} | {lost} | {took:.1?} | {calls_per_grant:.1} | {longest_gap:.2?} | {rolled_back} | \
         {mean:.2}, {most} | {}",
        errors.len(),
        errors.first().map_or("", String::as_str)
    );
}

impl Figures {
    /// Returns the figures that have bounds.
    fn bounded(&self) -> Bounds {
        let Self { calls_per_grant, queues: (queues, _), longest_gap, took, .. } = *self;
        Bounds { calls_per_grant, queues, longest_gap, took }
    }
}

/// Returns the figures with all rules, and without one rule.
fn with_and_without(rule: Mutation, load: &Load, run: impl Fn(&Load) -> Figures) -> (Figures, Figures) {
    let figures = (run(load), run(&load.clone().without(rule)));
    show("with all rules", &figures.0);
    show(&format!("without one rule: {rule:?}"), &figures.1);
    figures
}

/// The number of seeds of a mean.
const SEEDS: u64 = 5;

/// Some figures of a run, their means over several runs, or the largest values that they may have: at most 1.3 times the
/// values of the present code.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    calls_per_grant: f64,
    /// The mean number of nodes at which clients wait for one lock; 0 for other runs.
    queues: f64,
    longest_gap: Duration,
    took: Duration,
}

impl Bounds {
    /// Returns the names of the figures that exceed their bounds.
    fn exceeded_by(&self, figures: &Self) -> Vec<&'static str> {
        let figures = [
            ("calls per grant", figures.calls_per_grant > self.calls_per_grant),
            ("queues", figures.queues > self.queues),
            ("longest gap", figures.longest_gap > self.longest_gap),
            ("took", figures.took > self.took),
        ];
        figures.into_iter().filter_map(|(name, is_exceeded)| is_exceeded.then_some(name)).collect()
    }
}

/// Asserts that all calls of a large form have succeeded, and that all figures are within these bounds.
fn assert_within(name: &str, figures: &Figures, grants: usize, bounds: Bounds) {
    show(name, figures);
    assert_all_granted(figures, grants);
    assert_eq!(bounds.exceeded_by(&figures.bounded()), [""; 0], "{figures:?}");
}

/// Asserts the same as [`assert_within`] for a semaphore, but compares the means of several seeds with the bounds. The
/// longest gap of a single seed depends on the order of the waiters.
fn assert_means_within(name: &str, load: &Load, permits: u32, bounds: Bounds) {
    let runs = (1..=SEEDS).map(|seed| {
        let figures = Load { seed, ..load.clone() }.semaphore(permits);
        show(&format!("{name}, seed {seed}"), &figures);
        assert_all_granted(&figures, load.clients);
        figures.bounded()
    });
    let runs: Vec<Bounds> = runs.collect();
    let mean = |figure: fn(&Bounds) -> f64| runs.iter().map(figure).sum::<f64>() / runs.len() as f64;
    let mean_time = |time: fn(&Bounds) -> Duration| {
        runs.iter().map(time).sum::<Duration>() / u32::try_from(runs.len()).unwrap()
    };
    let means = Bounds {
        calls_per_grant: mean(|run| run.calls_per_grant),
        queues: mean(|run| run.queues),
        longest_gap: mean_time(|run| run.longest_gap),
        took: mean_time(|run| run.took),
    };
    assert_eq!(bounds.exceeded_by(&means), [""; 0], "{means:?}");
}

/// Asserts that all calls have succeeded, and that no lease was lost.
fn assert_all_granted(figures: &Figures, grants: usize) {
    let Figures { errors, lost, .. } = figures;
    assert_eq!((figures.grants, errors.len(), *lost), (grants, 0, 0), "{figures:?}");
    assert!(figures.has_ended, "{figures:?}");
}

/// Without the hedge that follows the response times, and without the response times of late answers, the waiters stand
/// in the queues of all nodes.
#[test]
fn s90_waiters_of_one_lock_get_the_lock_at_busy_nodes() {
    for rule in [Mutation::FixedHedge, Mutation::DropLateLocks] {
        let load = Load::new(200, micros(1_500));
        let (figures, without) = with_and_without(rule, &load, Load::one_lock);
        assert_all_granted(&figures, 200);
        assert!(figures.calls_per_grant <= 9.0, "{figures:?}");
        assert!(without.calls_per_grant > 9.4, "{without:?}");
    }
}

/// Without the delay after late answers, the next attempts stand behind the rollbacks, and more attempts are rolled back.
#[test]
fn s90_delays_after_late_answers_reduce_rollbacks() {
    let load = Load::new(500, micros(1_200));
    let (figures, without) = with_and_without(Mutation::NoDelayAfterLateAnswers, &load, Load::one_lock);
    assert_all_granted(&figures, 500);
    assert!(figures.rolled_back <= 2_300, "{figures:?}");
    assert!(without.rolled_back > 2_500, "{without:?}");
}

#[test]
fn s90_waiters_of_a_semaphore_get_permits_at_busy_nodes() {
    let load = Load::new(500, micros(300));
    let [calls, without] = mean_calls_per_grant(Mutation::ThreeQueues, &load, 50);
    assert!(calls <= 10.4, "{calls}");
    assert!(without > 1.08 * calls, "{without} without the rule, {calls} with it");
}

/// Returns the mean calls per permit of several seeds, with all rules and without one rule. The calls of a single seed
/// depend on the order of the waiters: of five seeds, the largest are more than twice the smallest.
fn mean_calls_per_grant(rule: Mutation, load: &Load, permits: u32) -> [f64; 2] {
    let mut sums = [0.0; 2];
    for seed in 1..=SEEDS {
        let load = Load { seed, ..load.clone() };
        let (figures, without) = with_and_without(rule, &load, |load| load.semaphore(permits));
        assert_all_granted(&figures, load.clients);
        sums[0] += figures.calls_per_grant;
        sums[1] += without.calls_per_grant;
    }
    sums.map(|sum| sum / SEEDS as f64)
}

/// Each waiter queries all slots once in each poll interval. At nodes as busy as these, the waiters of a slot need longer
/// than usual to take the slot, so nearly every poll finds vacant slots, and attempts them in vain.
#[test]
fn s90_polls_for_vacant_slots_are_rarer_at_busy_nodes() {
    let load = Load::new(200, micros(1_500));
    let [calls, without] = mean_calls_per_grant(Mutation::ImpatientVacancyQueries, &load, 20);
    assert!(calls <= 33.0, "{calls}");
    assert!(without > 60.0, "{without}");
}

/// The nodes have 3 s of work.
#[test]
fn s90_free_locks_within_the_attempt_timeout_cost_no_rollback() {
    let load = Load::new(50, millis(3)).within(Duration::ZERO);
    let run = |load: &Load| load.free_locks(10, 8 * SECOND);
    let (figures, without) = with_and_without(Mutation::ImpatientVotes, &load, run);
    assert_all_granted(&figures, 500);
    assert_eq!(figures.rolled_back, 0, "{figures:?}");
    assert!(without.rolled_back > 0, "{without:?}");
}

/// The renewals of all clients are answered after the time of a silence, and before their deadline. If a renewal waited
/// for a node timeout only, each answer would come after the end of its call. If the connections were given up before the
/// deadline, the nodes would have more messages.
#[test]
fn s90_no_lease_is_lost_if_renewals_are_answered_before_their_deadline() {
    for rule in [Mutation::ImpatientRenewals, Mutation::GiveUpRenewals] {
        let run = |load: &Load| load.free_locks(10, 40 * SECOND);
        let (figures, without) = with_and_without(rule, &slow_nodes(30, millis(375)), run);
        assert_all_granted(&figures, 300);
        assert!(without.lost > 0, "{without:?}");
    }
}

/// The nodes have 12 s of work, so most attempts fail, and each client gives up its connections as silent. If the client
/// then sends hundreds of unconfirmed unlocks at once on each new connection, the nodes stay busy with unlocks, and most
/// leases of the few successful calls are lost.
#[test]
fn s95_most_leases_outlive_an_overload_in_which_most_calls_fail() {
    let load = Load::new(200, millis(3)).within(Duration::ZERO);
    let run = |load: &Load| load.free_locks(10, 40 * SECOND);
    let (figures, without) = with_and_without(Mutation::ForgetSilences, &load, run);
    assert!(figures.grants > 300 && figures.errors.len() > 1000, "{figures:?}");
    assert!(figures.lost <= 130, "{figures:?}");
    assert!(without.lost > 200, "{without:?}");
}

/// Returns clients at nodes that are idle at first, and then need more time for each message for 25 s.
fn slow_nodes(clients: usize, by: Duration) -> Load {
    let slow = |load: Load, node| load.with(5 * SECOND, Fault::Slow { node, lasts: 25 * SECOND, by });
    (0..3).fold(Load::new(clients, micros(10)), slow)
}

#[test]
fn s90_the_rules_for_busy_nodes_change_nothing_at_idle_nodes() {
    let load = Load::new(10, Duration::ZERO);
    let trace = |load: Load| load.one_lock().trace;
    let expected = trace(load.clone());
    for rule in RULES {
        assert_eq!(trace(load.clone().without(rule)), expected, "{rule:?}");
    }
}

/// The rules for busy nodes, each of which a mutation switches off.
const RULES: [Mutation; 8] = [
    Mutation::ImpatientVotes,
    Mutation::FixedHedge,
    Mutation::NoDelayAfterLateAnswers,
    Mutation::ImpatientRenewals,
    Mutation::GiveUpRenewals,
    Mutation::ThreeQueues,
    Mutation::DropLateLocks,
    Mutation::ImpatientVacancyQueries,
];

/// A node that is slower than the other nodes: without processing time of its own, 2,000 messages take 4 s.
const SLOW: Fault = Fault::Slow { node: 0, lasts: Duration::from_secs(50), by: millis(2) };

/// A node that restarts with its data.
const RESTART: Fault = Fault::Crash { node: 0, lasts: Duration::from_millis(500), memory: Memory::Kept };

#[test]
#[ignore = "thousands of clients take seconds to simulate"]
fn s90_large_1000_waiters_of_one_lock_at_very_busy_nodes() {
    let figures = Load::new(1_000, micros(600)).one_lock();
    let bounds = Bounds { calls_per_grant: 22.0, queues: 2.9, longest_gap: millis(5_000), took: 20 * SECOND };
    assert_within("one lock, 1,000, 600 µs", &figures, 1_000, bounds);
}

#[test]
#[ignore = "thousands of clients take seconds to simulate"]
fn s90_large_4000_waiters_of_one_lock() {
    let figures = Load::new(4_000, micros(150)).one_lock();
    let bounds = Bounds { calls_per_grant: 22.0, queues: 2.9, longest_gap: millis(5_000), took: 20 * SECOND };
    assert_within("one lock, 4,000, 150 µs", &figures, 4_000, bounds);
}

#[test]
#[ignore = "thousands of clients take seconds to simulate"]
fn s90_large_2000_waiters_of_one_lock_beside_a_slow_node() {
    let figures = Load::new(2_000, micros(30)).with(SECOND, SLOW).one_lock();
    let bounds = Bounds { calls_per_grant: 7.0, queues: 2.0, longest_gap: millis(650), took: millis(8_500) };
    assert_within("one lock, 2,000, a slow node", &figures, 2_000, bounds);
}

#[test]
#[ignore = "thousands of clients take seconds to simulate"]
fn s90_large_2000_waiters_of_one_lock_while_a_node_restarts() {
    let figures = Load::new(2_000, micros(30)).with_after_release(SECOND, RESTART).one_lock();
    let bounds = Bounds { calls_per_grant: 14.0, queues: 2.2, longest_gap: millis(170), took: millis(5_500) };
    assert_within("one lock, 2,000, a restarted node", &figures, 2_000, bounds);
}

#[test]
#[ignore = "thousands of clients take seconds to simulate"]
fn s90_large_1000_clients_of_100_permits_at_very_busy_nodes() {
    let load = Load::new(1_000, micros(300));
    let bounds = Bounds { calls_per_grant: 15.0, queues: 0.0, longest_gap: millis(220), took: millis(6_400) };
    assert_means_within("semaphore of 100, 1,000, 300 µs", &load, 100, bounds);
}

#[test]
#[ignore = "thousands of clients take seconds to simulate"]
fn s90_large_2000_clients_of_100_permits() {
    let load = Load::new(2_000, micros(30));
    let bounds = Bounds { calls_per_grant: 10.8, queues: 0.0, longest_gap: millis(36), took: millis(1_050) };
    assert_means_within("semaphore of 100, 2,000", &load, 100, bounds);
    let slow = load.clone().with(SECOND, SLOW);
    let bounds = Bounds { calls_per_grant: 9.0, longest_gap: millis(35), took: millis(1_300), ..bounds };
    assert_means_within("semaphore of 100, 2,000, a slow node", &slow, 100, bounds);
    let restarted = load.with_after_release(millis(200), RESTART);
    let bounds = Bounds { calls_per_grant: 14.2, longest_gap: millis(65), took: millis(1_450), ..bounds };
    assert_means_within("semaphore of 100, 2,000, a restarted node", &restarted, 100, bounds);
}

#[test]
#[ignore = "thousands of clients take seconds to simulate"]
fn s90_large_numbers_of_free_locks_are_granted_at_once() {
    let bounds = Bounds { calls_per_grant: 4.5, queues: 0.0, longest_gap: millis(140), took: 2 * SECOND };
    let figures = Load::new(2_000, micros(300)).free_locks(1, SECOND);
    assert_within("2,000 x 1 free locks, 300 µs", &figures, 2_000, bounds);
    let bounds = Bounds { calls_per_grant: 0.5, took: millis(5_750), ..bounds };
    let figures = Load::new(500, micros(600)).within(Duration::ZERO).free_locks(10, 8 * SECOND);
    assert_within("500 x 10 free locks, 600 µs", &figures, 5_000, bounds);
    assert_eq!(figures.rolled_back, 0, "{figures:?}");
}

/// One renewal call of each client is 13.5 s of work at each node, and is due after a third of the ttl.
#[test]
#[ignore = "thousands of clients take seconds to simulate"]
fn s90_large_numbers_of_leases_survive_slow_nodes() {
    let figures = slow_nodes(300, millis(45)).free_locks(10, 40 * SECOND);
    show("300 x 10 leases, 45 ms", &figures);
    assert_all_granted(&figures, 3_000);
}
