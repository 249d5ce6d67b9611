//! Nodes that are one thread, with a processing time for each message and each operation.

use std::sync::{Arc, Mutex};

use super::*;

/// The time of a message of one operation at a node.
const WORK: Duration = Duration::from_micros(100);

/// The number of processes.
const PROCESSES: usize = 100;

/// Returns a schedule with one node, whose messages arrive at the time of their sending. Each message takes half of
/// [`WORK`], and each operation the other half.
fn one_thread() -> Schedule {
    let mut schedule = Schedule::without_faults(1, 1, PROCESSES);
    schedule.latency = Latency::between(Duration::ZERO, Duration::ZERO);
    schedule.processing = ProcessingTime::new(WORK / 2, WORK / 2);
    schedule
}

/// Returns the time since the start of the run.
fn global_time(process: &Process) -> Duration {
    Duration::from_micros(process.world().lock().now())
}

/// Each process locks a resource of its own at the same instant, at two seconds, with one message. Returns the times
/// from that instant to the grants, in order, and the report.
fn simultaneous_locks(schedule: Schedule) -> (Vec<Duration>, Report) {
    let grants = Arc::new(Mutex::new(Vec::new()));
    let report = Simulation::new(schedule).run(|process| {
        let grants = Arc::clone(&grants);
        async move {
            let quorum = process.quorum().unwrap();
            let lock = quorum.red_lock(format!("r{}", process.index()));
            // The first lock opens the connection.
            drop(lock.lock().await.unwrap());
            process.sleep(2 * SECOND - global_time(&process)).await;
            let guard = lock.lock().await.unwrap();
            let took = global_time(&process) - 2 * SECOND;
            grants.lock().unwrap().push(took);
            process.sleep(SECOND).await;
            drop(guard);
        }
    });
    report.check(&Promises::ALL).unwrap();
    let grants = grants.lock().unwrap().clone();
    (grants, report)
}

#[test]
fn a_node_answers_simultaneous_messages_one_after_the_other() {
    let (grants, report) = simultaneous_locks(one_thread());
    let expected: Vec<Duration> = (1..=100).map(|place| WORK * place).collect();
    assert_eq!(grants, expected);
    let load = &report.loads[0];
    assert_eq!(load.calls_per_second[2], 100);
    assert_eq!(load.calls, load.calls_per_second.iter().sum::<u64>());
    // A call has a message and at least one operation. Each process has also opened a connection.
    let connections = WORK / 2 * 100;
    let least = WORK / 2 * u32::try_from(load.calls + load.operations).unwrap() + connections;
    assert!(load.busy >= least, "{:?} {least:?}", load.busy);
}

#[test]
fn a_slow_fault_adds_to_the_processing_time() {
    let slow = Fault::Slow { node: 0, lasts: SECOND, by: WORK };
    let (grants, _) = simultaneous_locks(one_thread().with(2 * SECOND - millis(1), slow));
    let expected: Vec<Duration> = (1..=100).map(|place| WORK * 2 * place).collect();
    assert_eq!(grants, expected);
}

#[test]
fn a_node_without_a_processing_time_answers_at_once() {
    let schedule = Schedule { processing: ProcessingTime::default(), ..one_thread() };
    assert!(!schedule.to_string().contains("processing"));
    let (grants, report) = simultaneous_locks(schedule);
    assert_eq!(grants, vec![Duration::ZERO; PROCESSES]);
    assert_eq!(report.loads[0].busy, Duration::ZERO);
}
