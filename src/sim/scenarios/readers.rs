//! S64 to S71: readers beside writers.

use futures::future::join_all;

use super::*;
use crate::{MultiLock, sim::Memory};

/// The mode of readers.
const SHARED: bool = true;

/// The mode of writers.
const EXCLUSIVE: bool = false;

/// Returns the latest of some times.
fn latest(times: impl IntoIterator<Item = Duration>) -> Duration {
    times.into_iter().max().unwrap()
}

/// Returns the lock of a resource, shared or exclusive. The lock has the type of a lock of several
/// resources, so that shared and exclusive guards have one type.
fn lock_on(quorum: &Quorum, name: &str, is_shared: bool) -> MultiLock {
    let alone = (!is_shared).then_some(name);
    quorum.multi_lock(alone).and_read(is_shared.then_some(name))
}

/// Sleeps for `rest`, locks the resource shared or exclusive, holds the lease for `hold`, and
/// asserts that the lease is valid at the end.
async fn lock_once(process: &Process, is_shared: bool, rest: Duration, hold: Duration) {
    let quorum = quorum(process);
    let lock = lock_on(&quorum, "r", is_shared);
    process.sleep(rest).await;
    let guard = lock.lock().await.unwrap();
    process.sleep(hold).await;
    assert!(process.check_valid(&guard));
    guard.unlock().await.unwrap();
}

/// Kills a reader while a second reader holds the resource for eight seconds and a writer waits.
fn with_a_killed_reader() -> Report {
    let schedule = steady(3, 3).with(SECOND, Fault::Kill { process: 0 });
    Simulation::new(schedule).horizon(600 * SECOND).run(|process| async move {
        match process.index() {
            0 => lock_once(&process, SHARED, Duration::ZERO, 60 * SECOND).await,
            // The lease of this reader is renewed twice, once before and once after the writer
            // enters the queue.
            1 => lock_once(&process, SHARED, millis(100), 8 * SECOND).await,
            _ => lock_once(&process, EXCLUSIVE, 5 * SECOND, millis(1)).await,
        }
    })
}

#[test]
fn s64_a_killed_reader_blocks_a_writer_until_the_ttl_of_its_lease_ends() {
    let report = with_a_killed_reader();
    assert_keeps(&report, &Promises::ALL);
    let writer = granted(&report, 2)[0];
    assert!(writer > TTL && writer < TTL + millis(50), "{writer:?}");
    let broken = breaking(Mutation::OneEndForReaders, with_a_killed_reader);
    assert!(granted(&broken, 2)[0] > TTL + 5 * SECOND);
    assert!(matches!(broken.end, End::Inconsistent { .. }), "{:?}", broken.end);
}

#[test]
fn s65_all_readers_enter_when_the_ttl_of_a_killed_writer_ends() {
    let schedule = steady(3, 5).with(SECOND, Fault::Kill { process: 0 });
    let report = run(schedule, |process| async move {
        let rest = millis(100) * process.index() as u32;
        lock_once(&process, process.index() > 0, rest, SECOND).await;
    });
    assert_keeps(&report, &Promises::ALL);
    for reader in 1..5 {
        let since = granted(&report, reader)[0] - TTL;
        assert!(since < millis(50), "{reader}: {since:?}");
    }
}

#[test]
fn s66_a_partitioned_reader_loses_its_lease_before_a_writer_wins() {
    let schedule = cut(steady(3, 2), 0, &[0, 1, 2], PartitionDirection::Both, SECOND, 60 * SECOND);
    let report = run(schedule, |process| async move {
        if process.index() == 1 {
            return lock_once(&process, EXCLUSIVE, 2 * SECOND, millis(1)).await;
        }
        let guard = quorum(&process).rw_lock("r").read().await.unwrap();
        process.lost(&guard).await;
        assert!(!process.check_valid(&guard));
    });
    assert_keeps(&report, &Promises::ALL);
    let (over, writer) = (ended(&report, 0)[0], granted(&report, 1)[0]);
    assert!(over < writer && writer < TTL + millis(50), "{over:?} {writer:?}");
}

/// Runs a stream of twenty processes that lock repeatedly, for 200 ms each time, shared or exclusive. One more
/// process locks five times in the other mode. Returns the longest wait of that process.
fn wait_beside_a_stream(nodes: usize, is_shared: bool) -> Duration {
    let report = run(steady(nodes, 21), move |process| async move {
        let index = process.index() as u32;
        process.sleep(millis(10) * index).await;
        for _ in 0..if index == 0 { 5 } else { 25 } {
            let (rest, hold) = if index == 0 { (SECOND, 20) } else { (Duration::ZERO, 200) };
            lock_once(&process, (index == 0) != is_shared, rest, millis(hold)).await;
        }
    });
    assert_keeps(&report, &Promises::ALL);
    let ends = [Duration::ZERO].into_iter().chain(ended(&report, 0));
    latest(granted(&report, 0).into_iter().zip(ends).map(|(granted, end)| granted - end - SECOND))
}

#[test]
fn s67_a_stream_of_readers_delays_a_writer_by_at_most_one_read() {
    for nodes in [1, 3, 5] {
        let wait = wait_beside_a_stream(nodes, SHARED);
        assert!(wait < millis(215), "{nodes}: {wait:?}");
    }
    let starved = breaking(Mutation::GrantOutOfTurn, || wait_beside_a_stream(3, SHARED));
    assert!(starved > SECOND, "{starved:?}");
}

#[test]
fn s67_a_reader_waits_only_for_earlier_writers() {
    let wait = wait_beside_a_stream(3, EXCLUSIVE);
    assert!(wait < 20 * millis(210), "{wait:?}");
}

/// Runs twenty tasks of one process that read repeatedly, for 200 ms each time. Returns the wait of
/// a writer.
fn wait_beside_tasks() -> Duration {
    let report = run(steady(3, 2), |process| async move {
        if process.index() == 0 {
            return lock_once(&process, EXCLUSIVE, SECOND, millis(1)).await;
        }
        let lock = quorum(&process).rw_lock("r");
        let tasks = (0..20).map(|task| {
            let (process, lock) = (process.clone(), lock.clone());
            async move {
                process.sleep(millis(10) * task).await;
                for _ in 0..25 {
                    let guard = lock.read().await.unwrap();
                    process.sleep(millis(200)).await;
                    assert!(process.check_valid(&guard));
                }
            }
        });
        drop(join_all(tasks).await);
    });
    assert_keeps(&report, &Promises::ALL);
    granted(&report, 0)[0] - SECOND
}

#[test]
fn s67_coalesced_readers_delay_a_writer_by_at_most_one_read() {
    let wait = wait_beside_tasks();
    let joined = breaking(Mutation::UnboundedJoin, wait_beside_tasks);
    eprintln!("a writer waits for {wait:?}, with unbounded joins for {joined:?}");
    assert!(wait < millis(215), "{wait:?}");
    assert!(joined > SECOND, "{joined:?}");
}

/// Locks six times: processes 0 and 1 as writers, and the other processes as readers.
async fn mixed(process: Process) {
    let quorum = quorum(&process);
    for _ in 0..6 {
        let guard = lock_on(&quorum, "r", process.index() >= 2).lock().await.unwrap();
        process.sleep(millis(300)).await;
        assert!(process.check_valid(&guard));
        drop(guard);
    }
}

/// Returns the longest time for which the resource was free between two grants.
fn longest_gap(report: &Report) -> Duration {
    let (mut held, mut free_since, mut longest) = (0, None, Duration::ZERO);
    for entry in report.history.entries() {
        match entry.event {
            Event::Granted { .. } => {
                longest = longest.max(free_since.take().map_or(Duration::ZERO, |since| entry.at - since));
                held += 1;
            }
            Event::Ended { .. } => {
                held -= 1;
                free_since = (held == 0).then_some(entry.at);
            }
            _ => {}
        }
    }
    longest
}

#[test]
fn s68_readers_and_writers_proceed_without_the_queue_node() {
    let faults = |node| {
        [
            Fault::Hang { node, lasts: 20 * SECOND },
            Fault::Crash { node, lasts: 60 * SECOND, memory: Memory::Kept },
            Fault::Crash { node, lasts: SECOND, memory: Memory::Lost },
            Fault::Flush { node },
        ]
    };
    for (seed, node) in (0..5).flat_map(|seed| [(seed, 0), (seed, 1), (seed, 2)]) {
        for fault in faults(node) {
            let report = run(Schedule::without_faults(seed, 3, 6).with(millis(1_000), fault.clone()), mixed);
            assert_keeps(&report, &Promises::ALL);
            assert_eq!(turns(&report).len(), 36);
            let gap = longest_gap(&report);
            assert!(gap < 2 * SECOND, "seed {seed}, {fault}: {gap:?}");
        }
    }
}

/// Runs ten processes that read repeatedly, for 200 ms each time, and do not reach `node`. Another
/// process writes four times, and does not reach the node `unreached`, if any. Returns the times
/// that the four write locks took.
fn waits_beside_readers_without(node: usize, unreached: Option<usize>) -> Vec<Duration> {
    let schedule = (1..11).fold(steady(3, 11), |schedule, process| {
        cut(schedule, process, &[node], PartitionDirection::Both, Duration::ZERO, 60 * SECOND)
    });
    let nodes = unreached.as_slice();
    let report = run(
        cut(schedule, 0, nodes, PartitionDirection::Both, Duration::ZERO, 60 * SECOND),
        |process| async move {
            let index = process.index() as u32;
            let quorum = quorum(&process);
            process.sleep(millis(20) * index).await;
            for _ in 0..if index == 0 { 4 } else { 40 } {
                let guard = lock_on(&quorum, "r", index > 0).lock().await;
                process.sleep(millis(if index == 0 { 1 } else { 200 })).await;
                drop(guard.unwrap());
            }
        },
    );
    assert_keeps(&report, &Promises::ALL);
    let (granted, ended) = (granted(&report, 0), ended(&report, 0));
    let begun = std::iter::once(Duration::ZERO).chain(ended);
    granted.into_iter().zip(begun).map(|(granted, begun)| granted - begun).collect()
}

/// If a partition separates the readers from the first queue node, the readers and the writer have two queue nodes
/// with separate queues.
#[test]
fn s68_readers_without_the_queue_node_yield_to_a_writer_queued_there() {
    let nodes = [(0, None), (1, None), (2, None), (0, Some(1)), (0, Some(2)), (1, Some(0)), (2, Some(1))];
    let waits = |(node, unreached)| latest(waits_beside_readers_without(node, unreached));
    let longest = latest(nodes.map(waits));
    let starved = breaking(Mutation::IgnoreWriterMark, || latest(nodes.map(waits)));
    eprintln!("a write takes up to {longest:?}, without writer marks {starved:?}");
    assert!(longest < 2 * SECOND, "{longest:?}");
    assert!(starved > 4 * SECOND, "{starved:?}");
}

/// Four clients lock the same two resources as a group, each client in another combination of
/// modes. Further clients lock single resources at the same time.
#[test]
fn s69_a_group_mixes_shared_and_exclusive_resources() {
    for seed in 0..20 {
        let report = run(Schedule::without_faults(seed, 3, 6), |process| async move {
            let quorum = quorum(&process);
            let index = process.index();
            let shares = |name: &&str| if *name == "a" { index & 1 == 0 } else { index & 2 == 0 };
            let (shared, alone): (Vec<_>, Vec<_>) = ["a", "b"].into_iter().partition(shares);
            let group = quorum.multi_lock(alone).and_read(shared);
            for _ in 0..4 {
                let guard = match index {
                    0..4 => group.lock().await,
                    _ => lock_on(&quorum, "a", index == 4).lock().await,
                };
                process.sleep(millis(20)).await;
                assert!(process.check_valid(&guard.unwrap()));
            }
        });
        assert_keeps(&report, &Promises::ALL);
        assert_eq!(turns(&report).len(), 24);
    }
}

#[test]
fn s69_groups_that_only_read_common_resources_do_not_wait() {
    let report = run(steady(3, 3), |process| async move {
        let quorum = quorum(&process);
        let alone = ["a", "b", "c"][process.index()];
        let guard = quorum.multi_lock([alone]).and_read(["r"]).lock().await.unwrap();
        process.sleep(SECOND).await;
        assert!(process.check_valid(&guard));
    });
    assert_keeps(&report, &Promises::ALL);
    assert!(latest((0..3).map(|process| granted(&report, process)[0])) < millis(20));
}

/// Runs readers that arrive one after the other while a writer holds the resource. Returns the time
/// from the writer's unlock to the grant of the last reader.
fn entry_after_a_writer() -> Duration {
    let report = run(steady(5, 8), |process| async move {
        let index = process.index() as u32;
        let (rest, hold) = (millis(50) * index, if index == 0 { SECOND } else { 3 * SECOND });
        lock_once(&process, index > 0, rest, hold).await;
    });
    assert_keeps(&report, &Promises::ALL);
    latest((1..8).map(|reader| granted(&report, reader)[0])) - ended(&report, 0)[0]
}

#[test]
fn s70_queued_readers_enter_together() {
    let after = entry_after_a_writer();
    let asleep = breaking(Mutation::NoReaderWake, entry_after_a_writer);
    eprintln!("the last reader has the lock after {after:?}, without wakes by readers {asleep:?}");
    assert!(after < millis(30), "{after:?}");
    assert!(asleep > millis(200), "{asleep:?}");
}

/// Slows down `node`, which may be the queue node. A reader holds the resource for two ttls while a
/// writer waits. Meanwhile newcomers arrive to read, without information about the writer. Returns
/// the time from the first reader's unlock to the writer's grant.
fn wait_beside_newcomers(node: usize) -> Duration {
    let slow = Fault::Slow { node, lasts: 300 * SECOND, by: millis(3) };
    let report = run(steady(3, 52).with(Duration::ZERO, slow), |process| async move {
        match process.index() as u32 {
            0 => lock_once(&process, SHARED, Duration::ZERO, 2 * TTL).await,
            1 => lock_once(&process, EXCLUSIVE, SECOND, millis(1)).await,
            index => lock_once(&process, SHARED, 3 * TTL / 2 + SECOND / 2 * index, 2 * SECOND).await,
        }
    });
    assert_keeps(&report, &Promises::ALL);
    granted(&report, 1)[0] - ended(&report, 0)[0]
}

#[test]
fn s71_newcomers_do_not_overtake_a_writer_that_waits_beyond_a_ttl() {
    let wait = latest((0..3).map(wait_beside_newcomers));
    let passed = breaking(Mutation::NoMarkRenewal, || latest((0..3).map(wait_beside_newcomers)));
    eprintln!("the writer has the lock after {wait:?}, without renewals of its mark {passed:?}");
    assert!(wait < millis(30), "{wait:?}");
    assert!(passed > SECOND, "{passed:?}");
}
