//! Faults at their edges: those that take no time, those that never end, and several at once.

use super::*;

const NEVER: Duration = Duration::MAX;

#[test]
fn a_fault_that_takes_no_time_is_none() {
    let (client, node, lasts, by) = (0, 0, Duration::ZERO, SECOND);
    let nothing = [
        Fault::Pause { client, lasts },
        Fault::Freeze { client, lasts },
        Fault::Hang { node, lasts },
        Fault::Slow { node, lasts, by },
        Fault::Partition { client, node, way: Way::Both, lasts },
    ];
    let calm = Simulation::new(Schedule::calm(1, 1, 1)).run(contend);
    for fault in nothing {
        let report = Simulation::new(Schedule::calm(1, 1, 1).with(millis(5), fault.clone())).run(contend);
        assert_eq!((&report.end, report.trace), (&End::Done, calm.trace), "{fault}");
    }
}

#[test]
fn a_crash_that_takes_no_time_restarts_the_node() {
    let crash = Fault::Crash { node: 0, lasts: Duration::ZERO, memory: Memory::Lost };
    let report = Simulation::new(Schedule::calm(1, 1, 1).with(millis(10), crash)).run(|client| async move {
        let quorum = client.quorum().unwrap();
        let _held = quorum.red_lock("r").without_renewal().lock().await.unwrap();
        client.sleep(SECOND).await;
        assert!(quorum.red_lock("r").try_lock().await.unwrap().is_some(), "the node has forgotten");
    });
    assert_eq!(report.end, End::Done);
}

#[test]
fn a_partition_without_an_end_is_never_mended() {
    let cut = Fault::Partition { client: 0, node: 0, way: Way::Both, lasts: NEVER };
    let schedule = Schedule::calm(1, 1, 1).with(millis(1), cut);
    assert_eq!(schedule.to_string().parse::<Schedule>().unwrap(), schedule);
    let report = Simulation::new(schedule).run(|client| async move {
        let quorum = client.quorum().unwrap();
        client.sleep(1000 * SECOND).await;
        assert!(quorum.red_lock("r").try_lock().await.is_err());
    });
    assert_eq!(report.end, End::Done);
    assert!(report.timeline().to_string().contains("from now on"));
}

#[test]
fn no_fault_without_an_end_keeps_a_run_from_ending() {
    let (client, node, lasts, by) = (0, 0, NEVER, millis(1));
    let endless = [
        Fault::Pause { client, lasts },
        Fault::Freeze { client, lasts },
        Fault::Crash { node, lasts, memory: Memory::Kept },
        Fault::Hang { node, lasts },
        Fault::Slow { node, lasts, by },
        Fault::Slow { node, lasts: SECOND, by: NEVER },
        Fault::Partition { client, node, way: Way::Requests, lasts },
    ];
    for fault in endless {
        let schedule = Schedule::calm(1, 3, 2).with(millis(5), fault.clone());
        let report = Simulation::new(schedule).horizon(600 * SECOND).run(contend);
        let is_stopped = matches!(fault, Fault::Pause { .. } | Fault::Freeze { .. });
        assert_eq!(report.end, if is_stopped { End::Horizon } else { End::Done }, "{fault}");
    }
}

#[test]
fn a_message_that_is_delayed_for_ever_keeps_no_run_from_ending() {
    for verdict in [Verdict::Delay(NEVER), Verdict::Overtaken(NEVER), Verdict::Duplicate(NEVER)] {
        for direction in [Direction::Request, Direction::Reply] {
            let schedule = Schedule::calm(1, 3, 2).with_message(1, 1, direction, 1, verdict);
            let report = Simulation::new(schedule).run(contend);
            assert_eq!(report.end, End::Done, "{verdict:?} of a {direction:?}");
        }
    }
}
