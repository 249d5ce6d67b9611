//! Tests that break the rules of readers one at a time.

use proptest::sample::select;

use super::{
    cases::{SECOND, contender, lock, millis, of_late_write_backs, timed},
    *,
};
use crate::sim::{
    Direction, PartitionDirection, Schedule, Verdict,
    history::Event,
    workload::{LockCall, Step, Targets},
};

/// Returns a step like [`lock`], but for a reader.
fn read(rest: Duration, hold: Duration) -> Step {
    Step { reads: Some(Targets::Both), ..lock(rest, hold) }
}

fn without_faults(seed: u64, programs: Vec<Vec<Step>>) -> Case {
    Case { schedule: Schedule::without_faults(seed, 3, programs.len()), programs, is_unguarded: true }
}

/// Draws the cases of [`of_late_write_backs`], with a reader as the first holder, and with further
/// readers and writers.
fn of_late_readers() -> impl Strategy<Value = Case> + Clone {
    let modes = prop::collection::vec(any::<bool>(), 16);
    (of_late_write_backs(200), modes).prop_map(|(mut case, modes)| {
        for (step, is_shared) in case.programs.iter_mut().flatten().zip([true].into_iter().chain(modes)) {
            step.reads = is_shared.then_some(Targets::Both);
        }
        case
    })
}

/// Draws cases in which the lock request of a reader is lost on the way to one node and arrives
/// twice at another node. Between the two arrivals, the nodes lose the keys of the reader, and a
/// writer locks. The write-back of the reader arrives after the second arrival.
fn of_repeated_readers() -> impl Strategy<Value = Case> + Clone {
    let times = (millis(3..=6), millis(4..=20), millis(50..=200));
    let writer = prop::collection::vec(millis(0..=5), 1..=4);
    (any::<u64>().no_shrink(), 0..3_usize, times, writer).prop_map(
        |(seed, lost, (loses, again, late), writer)| {
            let write = |rest| Step { call: LockCall::TryLock, ..lock(rest, Duration::ZERO) };
            let reader = vec![read(Duration::ZERO, SECOND)];
            let mut case = without_faults(seed, vec![reader, writer.into_iter().map(write).collect()]);
            // The first messages of a process to a node are `HELLO`, a call without operations, the lock, and the
            // write-back.
            let to = |node, index, verdict| (node, index, verdict);
            let messages = [to(lost, 2, Verdict::Drop), to((lost + 1) % 3, 2, Verdict::Duplicate(again))];
            let write_backs = (0..3).map(|node| to(node, 3, Verdict::Overtaken(late)));
            for (node, index, verdict) in messages.into_iter().chain(write_backs) {
                case.schedule = case.schedule.with_message(0, node, Direction::Request, index, verdict);
            }
            case.schedule.faults = (0..3).map(|node| timed(loses, Fault::Evict { node })).collect();
            case
        },
    )
}

/// Draws cases in which some nodes lose the key of a reader. The reader verifies its lease after a
/// writer and then a second reader have locked.
fn of_lost_readers() -> impl Strategy<Value = Case> + Clone {
    let times = (millis(500..=1_500), millis(0..=1_500), millis(0..=1_500), millis(2_000..=3_000));
    (any::<u64>().no_shrink(), select(vec![0b111_usize, 0b011, 0b110]), times).prop_map(
        |(seed, nodes, (at, writes, reads, verifies))| {
            let first = Step { verifies: true, is_renewed: false, ..read(Duration::ZERO, verifies) };
            let mut case = without_faults(
                seed,
                vec![vec![first], vec![lock(writes, SECOND / 100)], vec![read(SECOND + reads, 4 * SECOND)]],
            );
            let evicted = (0..3).filter(|node| nodes >> node & 1 == 1);
            case.schedule.faults = evicted.map(|node| timed(at, Fault::Evict { node })).collect();
            case
        },
    )
}

/// Draws cases without faults in which readers hold the resource for one to four ttls, while a writer locks
/// repeatedly.
fn of_long_readers() -> impl Strategy<Value = Case> + Clone {
    let readers = prop::collection::vec(millis(20_000..=80_000), 1..=3);
    (any::<u64>().no_shrink(), readers, contender(3)).prop_map(|(seed, readers, contender)| {
        let readers = readers.into_iter().map(|hold| vec![read(Duration::ZERO, hold)]);
        without_faults(seed, readers.chain([contender]).collect())
    })
}

/// Draws cases without faults in which readers queue behind a writer.
fn of_queued_readers() -> impl Strategy<Value = Case> + Clone {
    let readers = prop::collection::vec((millis(20..=150), millis(1_000..=3_000)), 2..=5);
    (any::<u64>().no_shrink(), readers).prop_map(|(seed, readers)| {
        let readers = readers.into_iter().map(|(rest, hold)| vec![read(rest, hold)]);
        without_faults(seed, [vec![lock(Duration::ZERO, SECOND / 5)]].into_iter().chain(readers).collect())
    })
}

/// Whether a reader was granted more than a tenth of a second after the end of the lease of process 0, the
/// only writer. Until then, only readers held the resource.
pub(super) fn are_readers_serialized(report: &Report) -> bool {
    let entries = report.history.entries();
    let end = entries.iter().find(|entry| entry.process == 0 && matches!(entry.event, Event::Ended { .. }));
    let Some(over) = end.map(|entry| entry.at) else { return false };
    let grants = entries.iter().filter(|entry| matches!(entry.event, Event::Granted { .. }));
    grants.filter(|entry| entry.process != 0).any(|entry| entry.at > over + SECOND / 10)
}

/// Draws cases with one slow node, in which a writer waits for a reader that holds the resource for
/// longer than a ttl. Meanwhile newcomers arrive to read, without information about the writer.
fn of_newcomers() -> impl Strategy<Value = Case> + Clone {
    let newcomers = prop::collection::vec(millis(0..=200), 10);
    (any::<u64>().no_shrink(), 0..3_usize, millis(3..=20), newcomers).prop_map(
        |(seed, node, by, newcomers)| {
            let first = [vec![read(Duration::ZERO, 25 * SECOND)], vec![lock(SECOND, Duration::ZERO)]];
            let newcomers = newcomers
                .into_iter()
                .zip(0_u32..)
                .map(|(rest, number)| vec![read(23 * SECOND + SECOND / 2 * number + rest, 2 * SECOND)]);
            let mut case = without_faults(seed, first.into_iter().chain(newcomers).collect());
            case.schedule.faults = vec![timed(Duration::ZERO, Fault::Slow { node, lasts: 60 * SECOND, by })];
            case
        },
    )
}

/// Whether the writer, process 1, was granted more than half a second after the end of the read lease of
/// process 0.
pub(super) fn is_writer_overtaken(report: &Report) -> bool {
    let when = |process, is_it: fn(&Event) -> bool| {
        let entries = report.history.entries().iter();
        entries.filter(|entry| entry.process == process && is_it(&entry.event)).map(|entry| entry.at).next()
    };
    let over = when(0, |event| matches!(event, Event::Ended { .. }));
    let granted = when(1, |event| matches!(event, Event::Granted { .. }));
    over.zip(granted).is_some_and(|(over, granted)| granted > over + SECOND / 2)
}

/// Draws cases in which a writer downgrades its lease shortly before the validity ends. Requests to
/// some nodes are late, and another writer waits.
fn of_late_downgrades() -> impl Strategy<Value = Case> + Clone {
    let times = (millis(19_600..=19_790), millis(100..=1_000));
    let nodes = select(vec![0b001_usize, 0b010, 0b100, 0b011, 0b110]);
    (any::<u64>().no_shrink(), times, nodes, contender(2)).prop_map(
        |(seed, (hold, lasts), nodes, contender)| {
            let holder = Step { downgrades: true, is_renewed: false, ..lock(Duration::ZERO, hold) };
            let mut case = without_faults(seed, vec![vec![holder], contender]);
            let late = (0..3).filter(|node| nodes >> node & 1 == 1);
            let cut = |node| Fault::Partition { process: 0, node, way: PartitionDirection::Requests, lasts };
            case.schedule.faults = late.map(|node| timed(hold, cut(node))).collect();
            case
        },
    )
}

#[test]
fn a_reader_that_deletes_the_key_of_another_lease_is_caught() {
    assert_breaks(Mutation::UnshareAnyKey, Promise::Exclusion);
}

#[test]
fn a_reader_that_unlocks_for_all_is_caught() {
    assert_breaks(Mutation::UnshareForAll, Promise::Exclusion);
}

#[test]
fn a_key_that_ends_with_the_reader_that_unlocks_is_caught() {
    assert_breaks(Mutation::OneEndForReaders, Promise::Exclusion);
}

#[test]
fn a_token_of_a_reader_that_is_not_written_back_is_caught() {
    assert_breaks(Mutation::ReadersWriteNothingBack, Promise::Order);
}

#[test]
fn a_first_reader_that_repeats_the_vote_before_it_is_caught() {
    assert_breaks(Mutation::FirstReaderRepeats, Promise::Order);
}

#[test]
fn a_write_back_of_no_reader_is_caught() {
    assert_caught(Mutation::WriteBackOfNoReader, Symptom::Broken(Promise::Order), &of_late_readers());
}

#[test]
fn a_write_back_to_readers_after_a_writer_is_caught() {
    assert_caught(Mutation::WriteBackBelowPhase, Symptom::Broken(Promise::Order), &of_repeated_readers());
}

#[test]
fn a_stale_phase_is_caught() {
    assert_caught(Mutation::StalePhase, Symptom::Broken(Promise::Proof), &of_lost_readers());
}

#[test]
fn a_reader_that_is_renewed_as_a_writer_is_caught() {
    assert_caught(Mutation::RenewAsWriter, Symptom::LeaseLost, &of_long_readers());
}

/// Asserts that none of 200 cases shows the symptom if no rule is broken.
fn assert_shows_nothing(symptom: Symptom, cases: &(impl Strategy<Value = Case> + Sync)) {
    let found = Campaign::new(200).seed(1).run(cases, |case| symptom.check(case)).err();
    assert!(found.is_none(), "{}", found.unwrap());
}

#[test]
fn readers_neither_wait_for_readers_nor_overtake_a_writer() {
    assert_shows_nothing(Symptom::ReadersSerialized, &of_queued_readers());
    assert_shows_nothing(Symptom::WriterOvertaken, &of_newcomers());
    assert_shows_nothing(Symptom::LeaseLost, &of_long_readers());
}

#[test]
fn a_missing_wake_by_a_reader_is_caught() {
    assert_caught(Mutation::NoReaderWake, Symptom::ReadersSerialized, &of_queued_readers());
}

#[test]
fn a_mark_without_renewal_is_caught() {
    assert_caught(Mutation::NoMarkRenewal, Symptom::WriterOvertaken, &of_newcomers());
}

#[test]
fn a_downgrade_after_the_end_of_the_write_lease_is_caught() {
    assert_caught(Mutation::DowngradeTooLate, Symptom::Broken(Promise::Exclusion), &of_late_downgrades());
}
