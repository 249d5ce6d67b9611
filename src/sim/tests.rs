//! Tests of the simulation itself: runs are repeatable, runs end, panics fail a run, and basic faults have
//! their effect.

use std::time::Duration;

use super::*;
use crate::sim::{Promises, history::Event};

mod faults;
mod processing;
mod stores;

const SECOND: Duration = Duration::from_secs(1);

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Locks, checks the validity and unlocks, twice.
async fn contend(process: Process) {
    let quorum = process.quorum().unwrap();
    for _ in 0..2 {
        let guard = quorum.red_lock("r").lock().await.unwrap();
        process.sleep(millis(20)).await;
        assert!(process.check_valid(&guard));
        drop(guard);
    }
}

fn grants(report: &Report) -> usize {
    report.history.entries().iter().filter(|entry| matches!(entry.event, Event::Granted { .. })).count()
}

#[test]
fn without_faults_all_clients_get_the_lock() {
    for nodes in [1, 2, 3, 4, 5, 7] {
        let report = Simulation::new(Schedule::without_faults(1, nodes, 4)).run(contend);
        assert_eq!((&report.end, grants(&report)), (&End::Done, 8), "{nodes} nodes");
        report.check(&Promises::ALL).unwrap();
    }
}

#[test]
fn the_same_schedule_gives_the_same_run() {
    let schedule = |seed| {
        Schedule::without_faults(seed, 5, 4)
            .with(millis(3), Fault::Crash { node: 0, lasts: SECOND, memory: Memory::Kept })
            .with(millis(5), Fault::Hang { node: 1, lasts: SECOND })
            .with(millis(9), Fault::Pause { process: 2, lasts: SECOND })
            .with_message(0, 3, Direction::Reply, 2, Verdict::Drop)
    };
    let run = |seed| Simulation::new(schedule(seed)).run(contend);
    let (first, second, other) = (run(7), run(7), run(8));
    assert_eq!(first.trace, second.trace);
    assert_eq!(first.history.entries(), second.history.entries());
    assert_eq!((first.lasted, first.messages), (second.lasted, second.messages));
    assert_ne!(first.trace, other.trace, "another seed gives the same run");
}

#[test]
fn a_panic_in_any_task_of_a_process_fails_the_run() {
    let in_program =
        Simulation::new(Schedule::without_faults(1, 3, 1)).run(|_| async { panic!("on purpose") });
    assert_eq!(in_program.end, End::Panicked("on purpose".into()));
    let in_task = Simulation::new(Schedule::without_faults(1, 3, 1)).run(|process| async move {
        process.spawn(async { panic!("in the task") });
        process.sleep(SECOND).await;
    });
    assert_eq!(in_task.end, End::Panicked("in the task".into()));
    assert!(in_task.check(&Promises::NONE).is_err());
}

#[test]
fn a_process_that_waits_forever_is_reported_at_the_horizon() {
    let report =
        Simulation::new(Schedule::without_faults(1, 3, 2)).horizon(SECOND).run(|process| async move {
            if process.index() == 1 {
                std::future::pending().await
            }
        });
    assert_eq!((report.end.clone(), report.lasted), (End::Horizon, SECOND));
    let failure = report.check(&Promises::ALL).unwrap_err();
    assert!(failure.violations.unwrap().breaks(Promise::Liveness));
}

#[test]
fn a_run_with_a_busy_loop_ends_when_its_budget_is_exhausted() {
    let report = Simulation::new(Schedule::without_faults(1, 3, 1)).budget(10_000).run(|_| async {
        loop {
            tokio::task::yield_now().await;
        }
    });
    assert_eq!(report.end, End::Exhausted);
    assert!(report.check(&Promises::NONE).is_err());
}

#[test]
fn the_lease_of_a_paused_process_is_invalid_after_the_pause() {
    let schedule =
        Schedule::without_faults(1, 3, 1).with(millis(100), Fault::Pause { process: 0, lasts: 60 * SECOND });
    let report = Simulation::new(schedule).run(|process| async move {
        let quorum = process.quorum().unwrap();
        let guard = quorum.red_lock("r").lock().await.unwrap();
        process.sleep(SECOND).await;
        assert!(!process.check_valid(&guard), "the lease is still valid after a pause of 60 s");
    });
    report.check(&Promises::ALL).unwrap();
    assert!(report.lasted > 60 * SECOND);
}

#[test]
fn a_killed_process_leaves_its_key_until_the_ttl() {
    let schedule = Schedule::without_faults(1, 3, 2).with(SECOND, Fault::Kill { process: 0 });
    let report = Simulation::new(schedule).run(|process| async move {
        let quorum = process.quorum().unwrap();
        process.sleep(process.index() as u32 * SECOND / 2).await;
        let guard = quorum.red_lock("r").lock().await.unwrap();
        if process.index() == 0 {
            std::future::pending::<()>().await;
        }
        drop(guard);
    });
    report.check(&Promises::ALL).unwrap();
    let second =
        report.history.entries().iter().filter(|entry| matches!(entry.event, Event::Granted { .. })).nth(1);
    let granted = second.unwrap().at;
    assert!(granted > 20 * SECOND && granted < 32 * SECOND, "{granted:?}");
}

#[test]
fn a_schedule_can_be_parsed_from_its_text() {
    let schedule = Schedule::without_faults(3, 3, 2)
        .with(SECOND, Fault::Step { node: 1, by: -3 })
        .with_message(1, 2, Direction::Request, 4, Verdict::Delay(SECOND));
    let busy = Schedule { processing: ProcessingTime::new(millis(1), SECOND), ..schedule.clone() };
    assert_eq!(busy.to_string().parse::<Schedule>().unwrap(), busy);
    assert_eq!(schedule.to_string().parse::<Schedule>().unwrap(), schedule);
}

#[test]
fn a_panic_while_a_killed_process_is_dropped_fails_the_run() {
    struct PanicOnDrop;
    impl Drop for PanicOnDrop {
        fn drop(&mut self) {
            panic!("in the drop");
        }
    }
    let schedule = Schedule::without_faults(1, 3, 1).with(SECOND, Fault::Kill { process: 0 });
    let report = Simulation::new(schedule).run(|_| async {
        let _panic_on_drop = PanicOnDrop;
        std::future::pending::<()>().await;
    });
    assert_eq!(report.end, End::Panicked("in the drop".into()));
}
