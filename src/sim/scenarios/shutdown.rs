//! S60: shutdowns while nodes do not answer.

use super::*;
use crate::{clock::Clock, quorum::ShutdownReport, sim::Memory};

/// The grace period of most shutdowns.
const GRACE: Duration = Duration::from_secs(3);

/// Returns two faults that keep a node from answering for longer than any run of this file.
fn hang_and_crash(node: usize) -> [Fault; 2] {
    let lasts = 300 * SECOND;
    [Fault::Hang { node, lasts }, Fault::Crash { node, lasts, memory: Memory::Kept }]
}

/// Returns two schedules in which these nodes stop answering at time `at`: by a hang in one
/// schedule, and by a crash in the other.
fn with_dead_nodes(nodes: &[usize], at: Duration, processes: usize) -> [Schedule; 2] {
    [0, 1].map(|kind| {
        nodes.iter().fold(steady(5, processes), |schedule, node| {
            let [hang, crash] = hang_and_crash(*node);
            schedule.with(at, if kind == 0 { hang } else { crash })
        })
    })
}

/// Shuts a client down with the usual grace period. Returns the duration and the report of the shutdown.
async fn shut_down(process: &Process, quorum: &Quorum) -> (Duration, ShutdownReport) {
    shut_down_within(GRACE, process, quorum).await
}

async fn shut_down_within(grace: Duration, process: &Process, quorum: &Quorum) -> (Duration, ShutdownReport) {
    let start = process.clock().now();
    let shutdown = quorum.shutdown_within(grace).await;
    (process.clock().now().saturating_duration_since(start), shutdown)
}

fn assert_within(took: Duration, least: Duration, most: Duration) {
    assert!(took >= least && took <= most, "{took:?} instead of {least:?} to {most:?}");
}

/// Returns the nodes with unconfirmed unlocks.
fn nodes(shutdown: &ShutdownReport) -> Vec<&str> {
    shutdown.unconfirmed().map(|(node, _)| node).collect()
}

#[test]
fn s60_a_dead_minority_delays_a_shutdown_by_its_grace() {
    for schedule in with_dead_nodes(&[4], 2 * SECOND, 1) {
        assert_finished(&run(schedule, |process| async move {
            let quorum = quorum(&process);
            process.sleep(SECOND).await;
            let guard = quorum.red_lock("r").lock().await.unwrap();
            process.sleep(2 * SECOND).await;
            guard.unlock().await.unwrap();
            let (took, shutdown) = shut_down(&process, &quorum).await;
            assert_within(took, GRACE, GRACE);
            assert!(!shutdown.is_complete());
            assert_eq!(
                shutdown.to_string(),
                "sim:4 has not confirmed the unlock of r; unconfirmed keys expire with their ttl"
            );
        }));
    }
}

#[test]
fn s60_a_shutdown_without_grace_still_waits_for_a_quorum() {
    for schedule in with_dead_nodes(&[4], 2 * SECOND, 1) {
        assert_finished(&run(schedule, |process| async move {
            let quorum = quorum(&process);
            process.sleep(SECOND).await;
            let _guard = quorum.red_lock("r").lock().await.unwrap();
            process.sleep(2 * SECOND).await;
            let (took, shutdown) = shut_down_within(Duration::ZERO, &process, &quorum).await;
            assert_within(took, millis(1), millis(100));
            assert_eq!(nodes(&shutdown), ["sim:4"]);
        }));
    }
}

#[test]
fn s60_a_dead_node_without_pending_unlocks_does_not_delay_a_shutdown() {
    for schedule in with_dead_nodes(&[4], Duration::ZERO, 1) {
        assert_finished(&run(schedule, |process| async move {
            let quorum = quorum(&process);
            process.sleep(5 * SECOND).await;
            let _guard = quorum.red_lock("r").lock().await.unwrap();
            let (took, shutdown) = shut_down(&process, &quorum).await;
            assert_within(took, Duration::ZERO, millis(100));
            assert!(shutdown.is_complete(), "{shutdown}");
        }));
    }
}

#[test]
fn s60_an_undelivered_unlock_delays_a_shutdown_by_the_ttl_of_its_lease() {
    for schedule in with_dead_nodes(&[2, 3, 4], 2 * SECOND, 1) {
        assert_finished(&run(schedule, |process| async move {
            let quorum = quorum(&process);
            process.sleep(SECOND).await;
            let _guard = quorum.red_lock("r").lock().await.unwrap();
            process.sleep(3 * SECOND).await;
            let (took, shutdown) = shut_down(&process, &quorum).await;
            // The keys expire a ttl after the grant, which was three seconds ago. The shutdown may
            // wait for a node timeout more.
            assert_within(took, TTL - 3 * SECOND, TTL - SECOND);
            assert_eq!(nodes(&shutdown), ["sim:2", "sim:3", "sim:4"]);
        }));
    }
}

#[test]
fn s60_a_shutdown_returns_soon_after_a_quorum_has_unlocked() {
    let back = |schedule: Schedule, node| {
        let crash = Fault::Crash { node, lasts: 5 * SECOND, memory: Memory::Kept };
        schedule.with(2 * SECOND, crash)
    };
    let schedule = [2, 3].into_iter().fold(steady(5, 1), back).with(2 * SECOND, hang_and_crash(4)[1].clone());
    assert_finished(&run(schedule, |process| async move {
        let quorum = quorum(&process);
        process.sleep(SECOND).await;
        let _guard = quorum.red_lock("r").lock().await.unwrap();
        process.sleep(SECOND + millis(500)).await;
        let (took, shutdown) = shut_down(&process, &quorum).await;
        // The nodes come up four and a half seconds later, and the client connects again soon
        // afterwards.
        assert_within(took, 4 * SECOND, 6 * SECOND);
        assert_eq!(nodes(&shutdown), ["sim:4"]);
    }));
}

#[test]
fn s60_an_expired_lease_delays_a_shutdown_by_its_grace_alone() {
    for schedule in with_dead_nodes(&[2, 3, 4], 30 * SECOND, 1) {
        assert_finished(&run(schedule, |process| async move {
            let quorum = quorum(&process);
            process.sleep(SECOND).await;
            let guard = quorum.red_lock("r").lock().await.unwrap();
            process.lost(&guard).await;
            // The keys expire a ttl after the last renewal that may have reached the nodes, and a renewal may be sent
            // up to a quarter of the ttl after its submission. Later renewals do not delay the shutdown.
            process.sleep(4 * SECOND).await;
            let (took, shutdown) = shut_down(&process, &quorum).await;
            assert_within(took, GRACE, GRACE);
            assert_eq!(nodes(&shutdown), ["sim:2", "sim:3", "sim:4"]);
        }));
    }
}

#[test]
fn s60_a_rollback_without_a_quorum_counts_as_a_lease() {
    for (hung, least, most) in [(&[3, 4][..], GRACE, GRACE), (&[2, 3, 4], TTL, TTL + 2 * SECOND)] {
        let hang =
            |schedule: Schedule, node: &usize| schedule.with(2 * SECOND, hang_and_crash(*node)[0].clone());
        assert_finished(&run(hung.iter().fold(steady(5, 2), hang), move |process| async move {
            let quorum = quorum(&process);
            process.sleep(SECOND).await;
            if process.index() == 0 {
                // Another client holds the resource on the first three nodes.
                let _guard = quorum.red_lock("r").lock().await.unwrap();
                return process.sleep(60 * SECOND).await;
            }
            process.sleep(SECOND + millis(1)).await;
            let lock = quorum.red_lock("r");
            process.spawn(async move { drop(lock.lock().await) });
            process.sleep(millis(100)).await;
            let (took, shutdown) = shut_down(&process, &quorum).await;
            assert_within(took, least, most);
            assert_eq!(shutdown.unconfirmed().count(), hung.len(), "{shutdown}");
        }));
    }
}

fn assert_finished(report: &Report) {
    assert_eq!(report.end, End::Done);
    assert_keeps_the_rest(report);
}
