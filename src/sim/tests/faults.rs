//! Edge cases of faults: faults without duration, faults without an end, and several faults at
//! once.

use super::*;
use crate::{LockOptions, RestartGuard, clock::Clock, quorum::Quorum};

const FOREVER: Duration = Duration::MAX;

#[test]
fn a_fault_without_duration_has_no_effect() {
    let (process, node, lasts, by) = (0, 0, Duration::ZERO, SECOND);
    let without_duration = [
        Fault::Pause { process, lasts },
        Fault::Freeze { process, lasts },
        Fault::Hang { node, lasts },
        Fault::Slow { node, lasts, by },
        Fault::Far { node, lasts, by },
        Fault::Partition { process, node, way: PartitionDirection::Both, lasts },
    ];
    let without_faults = Simulation::new(Schedule::without_faults(1, 1, 1)).run(contend);
    for fault in without_duration {
        let report =
            Simulation::new(Schedule::without_faults(1, 1, 1).with(millis(5), fault.clone())).run(contend);
        assert_eq!((&report.end, report.trace), (&End::Done, without_faults.trace), "{fault}");
    }
}

#[test]
fn a_crash_without_duration_restarts_the_node() {
    let crash = Fault::Crash { node: 0, lasts: Duration::ZERO, memory: Memory::Lost };
    let report = Simulation::new(Schedule::without_faults(1, 1, 1).with(millis(10), crash)).run(
        |process| async move {
            let quorum =
                Quorum::builder().restart_guard(RestartGuard::Off).connect_simulated(&process).unwrap();
            let _held =
                quorum.red_lock("r").options(LockOptions::new().without_renewal()).lock().await.unwrap();
            process.sleep(SECOND).await;
            assert!(
                quorum.red_lock("r").try_lock().await.unwrap().is_some(),
                "the node still has its data after the crash"
            );
        },
    );
    assert_eq!(report.end, End::Done);
}

#[test]
fn a_partition_without_an_end_lasts_until_the_end_of_the_run() {
    let cut = Fault::Partition { process: 0, node: 0, way: PartitionDirection::Both, lasts: FOREVER };
    let schedule = Schedule::without_faults(1, 1, 1).with(millis(1), cut);
    assert_eq!(schedule.to_string().parse::<Schedule>().unwrap(), schedule);
    let report = Simulation::new(schedule).run(|process| async move {
        let quorum = process.quorum().unwrap();
        process.sleep(1000 * SECOND).await;
        assert!(quorum.red_lock("r").try_lock().await.is_err());
    });
    assert_eq!(report.end, End::Done);
    assert!(report.timeline().to_string().contains("from now on"));
}

#[test]
fn a_run_ends_despite_a_fault_without_an_end() {
    let (process, node, lasts) = (0, 0, FOREVER);
    let endless = [
        Fault::Pause { process, lasts },
        Fault::Freeze { process, lasts },
        Fault::Crash { node, lasts, memory: Memory::Kept },
        Fault::Hang { node, lasts },
        Fault::Slow { node, lasts: SECOND, by: FOREVER },
        Fault::Far { node, lasts, by: SECOND },
        Fault::Partition { process, node, way: PartitionDirection::Requests, lasts },
    ];
    for fault in endless {
        let schedule = Schedule::without_faults(1, 3, 2).with(Duration::ZERO, fault.clone());
        let report = Simulation::new(schedule).horizon(600 * SECOND).run(contend);
        let is_stopped = matches!(fault, Fault::Pause { .. } | Fault::Freeze { .. });
        assert_eq!(report.end, if is_stopped { End::Horizon } else { End::Done }, "{fault}");
    }
}

#[test]
fn a_run_ends_despite_a_message_that_is_delayed_forever() {
    for verdict in [Verdict::Delay(FOREVER), Verdict::Overtaken(FOREVER), Verdict::Duplicate(FOREVER)] {
        for direction in [Direction::Request, Direction::Reply] {
            let schedule = Schedule::without_faults(1, 3, 2).with_message(1, 1, direction, 1, verdict);
            let report = Simulation::new(schedule).run(contend);
            assert_eq!(report.end, End::Done, "{verdict:?} of a {direction:?}");
        }
    }
}

/// Returns the time from one second, at which process 0 connects and calls `lock`, until the grant.
fn attempt_under(schedule: Schedule) -> Duration {
    let report = Simulation::new(schedule).run(|process| async move {
        process.sleep(SECOND).await;
        drop(process.quorum().unwrap().red_lock("r").lock().await.unwrap());
    });
    report.check(&Promises::ALL).unwrap();
    let granted = report.history.entries().iter().find(|entry| matches!(entry.event, Event::Granted { .. }));
    granted.unwrap().at - SECOND
}

#[test]
fn a_node_is_slow_until_the_end_of_the_last_of_several_faults() {
    let slow = |lasts, by| Fault::Slow { node: 0, lasts, by };
    let (long, short) = (slow(10 * SECOND, millis(200)), slow(SECOND / 2, millis(100)));
    let single = Schedule::without_faults(1, 1, 1).with(Duration::ZERO, long.clone());
    let second_ends_early = single.clone().with(Duration::ZERO, short.clone());
    assert_eq!(attempt_under(second_ends_early), attempt_under(single.clone()));
    let both = single.clone().with(SECOND / 2, slow(10 * SECOND, millis(100)));
    assert!(attempt_under(both) >= attempt_under(single) + millis(100));
}

#[test]
fn a_hanging_node_does_not_execute_its_slow_backlog() {
    let schedule = Schedule::without_faults(1, 1, 1)
        .with(Duration::ZERO, Fault::Slow { node: 0, lasts: 2 * SECOND, by: millis(300) })
        .with(SECOND + millis(200), Fault::Hang { node: 0, lasts: millis(500) });
    let took = attempt_under(schedule);
    // The hang ends after 700 ms, and then the slow node needs 300 ms.
    assert!(took >= millis(1000), "{took:?}");
}

#[test]
fn a_node_executes_its_backlog_when_a_slow_fault_ends() {
    let slow = |lasts| {
        Schedule::without_faults(1, 1, 1)
            .with(Duration::ZERO, Fault::Slow { node: 0, lasts, by: millis(300) })
    };
    let (short, long) = (SECOND + millis(100), 10 * SECOND);
    let took = attempt_under(slow(short));
    // The node is slow for the first 100 ms of the call.
    assert!((millis(100)..millis(150)).contains(&took), "{took:?}");
    assert!(attempt_under(slow(long)) >= millis(300));
}

#[test]
fn a_crash_refuses_the_connections_in_the_backlog_of_a_slow_node() {
    let schedule = Schedule::without_faults(1, 1, 1)
        .with(Duration::ZERO, Fault::Slow { node: 0, lasts: 10 * SECOND, by: millis(300) })
        .with(SECOND + millis(200), Fault::Crash { node: 0, lasts: SECOND, memory: Memory::Kept });
    let report = Simulation::new(schedule).run(|process| async move {
        process.sleep(SECOND).await;
        let began = process.clock().now().since_origin();
        let failed = process.quorum().unwrap().red_lock("r").try_lock().await;
        assert!(failed.is_err(), "a node that is down granted");
        let took = process.clock().now().since_origin() - began;
        assert!(took < millis(300), "the connection was not refused at the crash: {took:?}");
    });
    assert_eq!(report.end, End::Done);
}

#[test]
fn a_clock_stops_for_a_freeze_and_not_for_a_pause() {
    let schedule = Schedule::without_faults(1, 1, 1)
        .with(SECOND, Fault::Freeze { process: 0, lasts: SECOND })
        .with(SECOND + SECOND / 2, Fault::Pause { process: 0, lasts: 10 * SECOND });
    let report = Simulation::new(schedule).run(|process| async move {
        let began = process.clock().now().since_origin();
        process.sleep(SECOND + millis(1)).await;
        let counted = process.clock().now().since_origin() - began;
        // The task runs again after 11.5 s, of which the clock has not counted the second of the freeze.
        assert_eq!(counted, 10 * SECOND + SECOND / 2);
    });
    assert_eq!(report.end, End::Done);
}
