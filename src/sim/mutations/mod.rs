//! Tests that break one rule of the crate each. A campaign must find a case that shows the symptom of the
//! broken rule, and the same case must not show the symptom if the rule holds.
//!
//! Tests of other modules break further rules.
//!
//! This command prints a table with each broken rule, its symptom, and the number of cases until
//! the symptom showed:
//!
//! ```text
//! cargo nextest run --all-features --lib sim::mutations --no-capture 2>&1 | grep -o '| .* |'
//! ```

use std::{fmt, time::Duration};

use proptest::prelude::*;

use super::{
    Campaign, Failure, Fault, Memory, Promise, Promises, Report, Schedules, TimedFault, workload::Case,
};
use crate::mutation::{Mutation, break_rule};

pub(super) mod cases;
mod proof;
mod readers;

/// The number of cases within which a broken rule must show.
const MOST_CASES: u64 = 20_000;

/// An observable effect of a broken rule.
#[derive(Clone, Copy, Debug)]
enum Symptom {
    /// A broken promise that the schedule guarantees.
    Broken(Promise),
    /// A broken promise that the schedule need not guarantee. Without the broken rule, the same case must
    /// keep the promise.
    BrokenBeyond(Promise),
    /// The loss of a lease, although the watchdog renewed the lease.
    LeaseLost,
    /// Two grants to a process during one wait of another process.
    OutOfTurn,
    /// A resource that stays free for longer than a hand-off with a wake takes, although processes wait.
    SlowHandOff,
    /// A reader that waits for another reader.
    ReadersSerialized,
    /// A writer that waits for readers that arrived later.
    WriterOvertaken,
}

impl Symptom {
    /// Runs a case. Returns an error if the case shows the symptom.
    fn check(self, case: &Case) -> Result<Report, Box<Failure>> {
        let report = case.run();
        match self {
            Self::Broken(promise) if !case.promises().contains(promise) => Ok(report),
            Self::Broken(promise) | Self::BrokenBeyond(promise) => {
                match report.check(&Promises::NONE.with(promise)) {
                    Err(failure) if failure.breaks(promise) => Err(failure),
                    _ => Ok(report),
                }
            }
            Self::LeaseLost => fail_if(cases::has_lost_lease(&report), report),
            Self::OutOfTurn => fail_if(cases::is_out_of_turn(&report), report),
            Self::SlowHandOff => fail_if(cases::is_hand_off_slow(&report), report),
            Self::ReadersSerialized => fail_if(readers::are_readers_serialized(&report), report),
            Self::WriterOvertaken => fail_if(readers::is_writer_overtaken(&report), report),
        }
    }
}

/// Runs a case, and checks the promises that its schedule guarantees.
fn check(case: &Case) -> Result<Report, Box<Failure>> {
    let report = case.run();
    report.check(&case.promises()).map(|()| report)
}

/// Returns the report, as a failure if `is_shown` is true.
fn fail_if(is_shown: bool, report: Report) -> Result<Report, Box<Failure>> {
    if is_shown { Err(Box::new(Failure { report, violations: None })) } else { Ok(report) }
}

impl fmt::Display for Symptom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(promise) | Self::BrokenBeyond(promise) => promise.fmt(f),
            Self::LeaseLost => f.write_str("a lost lease despite renewals"),
            Self::OutOfTurn => f.write_str("two turns while another process waits"),
            Self::SlowHandOff => f.write_str("a free lock with waiters"),
            Self::ReadersSerialized => f.write_str("readers that wait for each other"),
            Self::WriterOvertaken => f.write_str("a writer that later readers overtake"),
        }
    }
}

/// Breaks a rule, and asserts that one of [`MOST_CASES`] cases shows the symptom. Asserts that without a
/// broken rule the same case, after shrinking, does not show the symptom and keeps its promises.
#[expect(clippy::print_stdout, reason = "a line of the table")]
fn assert_caught(mutation: Mutation, symptom: Symptom, cases: &(impl Strategy<Value = Case> + Sync)) {
    let campaign = Campaign::new(MOST_CASES).seed(1).shrinks(100);
    let found = {
        let _broken = break_rule(Some(mutation));
        campaign.run(cases, |case| symptom.check(case))
    };
    let Err(found) = found else { panic!("{mutation:?}: no {symptom} in {MOST_CASES} cases") };
    println!("| {mutation:?} | {symptom} | {} |", found.number + 1);
    if let Err(failure) = symptom.check(&found.case).and_then(|_| check(&found.case)) {
        panic!("the symptom also shows without a broken rule:\n{}\n{failure}", found.case);
    }
}

/// Asserts that random cases show a broken promise if this rule is broken.
fn assert_breaks(mutation: Mutation, promise: Promise) {
    assert_caught(mutation, Symptom::Broken(promise), &Case::strategy(&Schedules::tolerated()));
}

#[test]
fn a_reused_lease_id_is_caught() {
    let schedules = Schedules::tolerated().nodes([3]).processes(2..=3).faults(1, 10);
    assert_caught(Mutation::ReuseLeaseId, Symptom::Broken(Promise::Exclusion), &Case::strategy(&schedules));
}

#[test]
fn a_quorum_that_wins_after_the_end_of_validity_is_caught() {
    assert_caught(Mutation::SkipLastValidityCheck, Symptom::Broken(Promise::Honesty), &cases::of_pauses());
}

#[test]
fn half_of_the_nodes_as_a_quorum_is_caught() {
    assert_breaks(Mutation::HalfIsQuorum, Promise::Exclusion);
}

#[test]
fn a_quorum_of_answering_nodes_is_caught() {
    assert_breaks(Mutation::QuorumOfAnswering, Promise::Exclusion);
}

#[test]
fn an_unconditional_write_back_is_caught() {
    assert_caught(
        Mutation::WriteBackUnconditionally,
        Symptom::Broken(Promise::Order),
        &cases::of_late_write_backs(200),
    );
}

#[test]
fn a_write_back_without_owner_check_is_caught() {
    assert_caught(
        Mutation::WriteBackWithoutOwner,
        Symptom::Broken(Promise::Order),
        &cases::of_late_write_backs(15),
    );
}

#[test]
fn a_write_back_that_lowers_a_counter_is_caught() {
    assert_caught(
        Mutation::WriteBackAboveToken,
        Symptom::Broken(Promise::Order),
        &cases::of_late_write_backs(200),
    );
}

#[test]
fn a_token_that_is_not_written_back_is_caught() {
    assert_caught(Mutation::NoWriteBack, Symptom::Broken(Promise::Order), &cases::of_late_write_backs(15));
}

#[test]
fn a_renewal_that_heals_only_below_the_token_is_caught() {
    assert_caught(Mutation::HealOnlyBelowToken, Symptom::LeaseLost, &cases::of_a_long_lease());
}

#[test]
fn a_proof_by_nodes_that_gave_larger_tokens_is_caught() {
    assert_caught(
        Mutation::VerifyAboveToken,
        Symptom::Broken(Promise::Proof),
        &Case::strategy(&Schedules::beyond()),
    );
}

#[test]
fn a_proof_by_nodes_without_counter_is_caught() {
    assert_caught(
        Mutation::VerifyWithoutCounter,
        Symptom::BrokenBeyond(Promise::Proof),
        &cases::of_forgetful_nodes(),
    );
}

#[test]
fn an_unlock_without_owner_check_is_caught() {
    assert_breaks(Mutation::UnlockWithoutOwner, Promise::Exclusion);
}

#[test]
fn a_missing_tombstone_for_a_lock_is_caught() {
    assert_breaks(Mutation::NoTombstoneForLock, Promise::Residue);
}

#[test]
fn a_missing_tombstone_for_a_renewal_is_caught() {
    assert_breaks(Mutation::NoTombstoneForRenewal, Promise::Residue);
}

#[test]
fn validity_from_after_the_first_answer_is_caught() {
    assert_caught(
        Mutation::StartAfterFirstAnswer,
        Symptom::Broken(Promise::Exclusion),
        &cases::of_slow_answers(),
    );
}

#[test]
fn a_ttl_that_is_shortened_is_caught() {
    assert_caught(Mutation::ShortenTtl, Symptom::Broken(Promise::Exclusion), &cases::of_reentries());
}

#[test]
fn a_node_that_grants_out_of_turn_is_caught() {
    assert_caught(Mutation::GrantOutOfTurn, Symptom::OutOfTurn, &cases::of_a_queue());
}

#[test]
fn a_queue_node_without_wakes_is_caught() {
    assert_caught(Mutation::NoWake, Symptom::SlowHandOff, &cases::of_a_queue());
}

#[test]
fn a_rollback_that_skips_silent_nodes_is_caught() {
    assert_breaks(Mutation::RollbackSkipsSilent, Promise::Residue);
}

#[test]
fn a_loss_that_only_a_renewal_announces_is_caught() {
    assert_breaks(Mutation::LossOnlyByRenewal, Promise::Honesty);
}

#[test]
fn an_unlock_that_subtracts_one_hold_is_caught() {
    assert_caught(Mutation::HoldsAsIncrements, Symptom::Broken(Promise::Exclusion), &cases::of_reentries());
}

#[test]
fn votes_below_those_that_a_node_forgot_are_caught() {
    assert_caught(Mutation::VoteBelowMinimum, Symptom::Broken(Promise::Order), &cases::of_old_backups());
}

#[test]
fn a_redemption_without_proof_is_caught() {
    assert_breaks(Mutation::RedeemWithoutProof, Promise::Exclusion);
}

#[test]
fn a_renewal_that_counts_at_once_in_quarantine_is_caught() {
    let restart =
        |at| TimedFault { at, fault: Fault::Crash { node: 2, lasts: Duration::ZERO, memory: Memory::Lost } };
    assert_caught(
        Mutation::CountInQuarantine,
        Symptom::Broken(Promise::Exclusion),
        &cases::of_forgotten_votes(restart),
    );
}

#[test]
fn a_renewal_that_counts_at_a_node_without_metadata_is_caught() {
    let flush = |at| TimedFault { at, fault: Fault::Flush { node: 2 } };
    assert_caught(
        Mutation::CountWithoutMetadata,
        Symptom::Broken(Promise::Exclusion),
        &cases::of_forgotten_votes(flush),
    );
}
