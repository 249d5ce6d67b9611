//! Tests of the promises about leases: exclusion, order, residue, liveness, re-entry, honesty and proof.

use super::*;

#[test]
fn consecutive_leases_are_disjoint_even_within_one_instant() {
    let mut builder = HistoryBuilder::new();
    builder.lease(1, "a", 5).began(2, 2, "a").granted(2, 2, 6).at_once(1, ended(1, false)).assert_kept();
    builder.lease(3, "b", 5).assert_kept();
}

#[test]
fn a_lease_granted_during_another_lease_breaks_exclusion() {
    let mut builder = HistoryBuilder::new();
    let violation =
        builder.lease(1, "a", 5).lease(2, "a", 6).unlocked(1).assert_breaks_only(Promise::Exclusion);
    assert_eq!(
        violation.to_string(),
        "two leases on \"a\" overlap: attempt 1 of process 1 (token 5, begun at 1.000 ms, held from \
         2.000 to 5.000 ms), and attempt 2 of process 2 (token 6, begun at 3.000 ms, held from 4.000 ms on)"
    );
    assert_eq!((violation.at(), violation.process()), (Duration::from_millis(4), 2));
}

#[test]
fn a_lease_on_several_resources_excludes_other_leases_on_each_of_them() {
    let violation =
        HistoryBuilder::new().lease(1, "a b", 5).lease(2, "b c", 6).assert_breaks_only(Promise::Exclusion);
    let Violation::Overlap { resource: on, .. } = violation else { panic!("{violation}") };
    assert_eq!(on, resource("b"));
}

#[test]
fn a_long_lease_still_overlaps_after_the_end_of_a_short_lease() {
    let mut builder = HistoryBuilder::new();
    builder.lease(1, "a", 5).lease(2, "a", 6).unlocked(2).lease(3, "a", 7);
    let overlaps: Vec<_> = builder.violations().iter().map(Violation::process).collect();
    assert_eq!(overlaps, [2, 3]);
}

#[test]
fn two_resources_may_have_equal_tokens() {
    HistoryBuilder::new().lease(1, "a", 5).lease(2, "b", 5).unlocked(1).lease(3, "a", 6).assert_kept();
}

#[test]
fn a_repeated_token_breaks_the_order() {
    let violation = HistoryBuilder::new()
        .lease(1, "a", 5)
        .unlocked(1)
        .lease(2, "a", 5)
        .assert_breaks_only(Promise::Order);
    assert!(matches!(violation, Violation::RepeatedToken { .. }));
}

#[test]
fn a_smaller_token_breaks_the_order_if_its_attempt_began_after_the_grant() {
    let violation = HistoryBuilder::new()
        .lease(1, "a", 5)
        .unlocked(1)
        .lease(2, "a", 4)
        .assert_breaks_only(Promise::Order);
    assert!(matches!(violation, Violation::FallingToken { .. }));
}

#[test]
fn a_smaller_token_is_allowed_if_its_attempt_began_before_the_grant() {
    HistoryBuilder::new().began(2, 2, "a").lease(1, "a", 5).unlocked(1).granted(2, 2, 4).assert_kept();
}

#[test]
fn readers_may_overlap_with_readers_but_not_with_writers() {
    let mut builder = HistoryBuilder::new();
    builder.lease(1, "a*", 5).lease(2, "a*", 5).unlocked(2).lease(3, "a*", 6).unlocked(3).assert_kept();
    let writer = |builder: &mut HistoryBuilder| {
        builder.lease(4, "a", 7).assert_breaks_only(Promise::Exclusion).to_string()
    };
    assert!(writer(&mut builder).contains("overlap: attempt 1"), "the overlap is not with the first reader");
    let reader =
        HistoryBuilder::new().lease(1, "a", 5).lease(2, "a*", 6).assert_breaks_only(Promise::Exclusion);
    assert_eq!(reader.process(), 2);
}

#[test]
fn a_group_may_read_one_resource_and_write_another() {
    let mut builder = HistoryBuilder::new();
    builder.lease(1, "a b*", 5).lease(2, "b* c", 6).lease(3, "b*", 6).assert_kept();
    let violation = builder.lease(4, "b c*", 7).violations();
    let on: Vec<_> = violation
        .iter()
        .map(|violation| match violation {
            Violation::Overlap { resource, first, .. } => (resource.to_string(), first.process),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(on, [("b".to_owned(), 3), ("c".to_owned(), 2)]);
}

#[test]
fn readers_may_have_equal_tokens_but_not_smaller_tokens() {
    let mut builder = HistoryBuilder::new();
    builder.lease(1, "a*", 5).lease(2, "a*", 5).unlocked(1).unlocked(2).assert_kept();
    let fallen = builder.lease(3, "a*", 4).assert_breaks_only(Promise::Order);
    assert!(matches!(fallen, Violation::FallingToken { .. }));
    for (first, second) in [("a*", "a"), ("a", "a*")] {
        let repeated = HistoryBuilder::new()
            .lease(1, first, 5)
            .unlocked(1)
            .lease(2, second, 5)
            .assert_breaks_only(Promise::Order);
        assert!(matches!(repeated, Violation::RepeatedToken { .. }), "{first} {second}");
    }
}

#[test]
fn a_key_after_the_end_of_its_lease_is_residue() {
    let left = Event::Residue { attempt: AttemptId::new(1), node: 2 };
    let violation =
        HistoryBuilder::new().lease(1, "a", 5).unlocked(1).note(9, left).assert_breaks_only(Promise::Residue);
    assert_eq!(violation.to_string(), "node 2 still has a key of attempt 1 of process 1 at 4.000 ms");
}

#[test]
fn a_process_that_waits_forever_breaks_liveness() {
    let violation = HistoryBuilder::new().note(3, Event::Stalled).assert_breaks_only(Promise::Liveness);
    assert_eq!(violation.to_string(), "process 3 still waits at 1.000 ms");
}

#[test]
fn a_re_entry_has_the_token_of_the_lease() {
    let mut builder = HistoryBuilder::new();
    builder.lease(1, "a", 5).note(1, reentered(1, 5)).assert_kept();
    builder.note(1, reentered(1, 6)).assert_breaks_only(Promise::Reentry);
}

#[test]
fn a_lease_is_shown_as_valid_from_its_grant_to_its_end() {
    let mut builder = HistoryBuilder::new();
    builder.began(1, 1, "a").note(1, checked(1, false)).granted(1, 1, 5).at_once(1, checked(1, true));
    builder.note(1, checked(1, true)).at_once(1, ended(1, true)).at_once(1, checked(1, false)).assert_kept();
}

#[test]
fn a_lease_that_is_shown_as_valid_after_its_end_breaks_honesty() {
    let mut builder = HistoryBuilder::new();
    let violation =
        builder.lease(1, "a", 5).expired(1).at_once(1, checked(1, true)).assert_breaks_only(Promise::Honesty);
    assert!(matches!(violation, Violation::LateValidity { .. }));
}

#[test]
fn an_attempt_that_is_shown_as_valid_before_its_grant_breaks_honesty() {
    let mut builder = HistoryBuilder::new();
    let violation = builder
        .began(1, 1, "a")
        .note(1, checked(1, true))
        .granted(1, 1, 5)
        .assert_breaks_only(Promise::Honesty);
    assert!(matches!(violation, Violation::EarlyValidity { .. }));
}

#[test]
fn a_loss_must_be_reported_by_the_end_of_the_lease() {
    HistoryBuilder::new().lease(1, "a", 5).note(1, announced(1)).expired(1).assert_kept();
    HistoryBuilder::new().lease(1, "a", 5).expired(1).at_once(1, announced(1)).assert_kept();
    HistoryBuilder::new().lease(1, "a", 5).unlocked(1).note(1, announced(1)).assert_kept();
    HistoryBuilder::new()
        .lease(1, "a", 5)
        .note(1, announced(1))
        .expired(1)
        .note(1, announced(1))
        .assert_kept();
    let mut late = HistoryBuilder::new();
    let violation =
        late.lease(1, "a", 5).expired(1).note(1, announced(1)).assert_breaks_only(Promise::Honesty);
    assert!(matches!(violation, Violation::LateLoss { .. }));
    assert_eq!(late.history.check(&Promises::ALL.with_grace(Duration::from_millis(1))), Ok(()));
}

#[test]
fn a_proof_is_allowed_if_the_later_lease_was_granted_after_the_verification_began() {
    let mut builder = HistoryBuilder::new();
    builder
        .lease(1, "a", 5)
        .note(1, verifying(1))
        .expired(1)
        .lease(2, "a", 6)
        .note(1, proven(1))
        .assert_kept();
}

#[test]
fn a_proof_by_a_verification_after_a_later_grant_is_false() {
    let mut builder = HistoryBuilder::new();
    builder.lease(1, "a b", 5).expired(1).lease(2, "b", 6).unlocked(2).note(1, verifying(1)).assert_kept();
    let violation = builder.note(1, proven(1)).assert_breaks_only(Promise::Proof);
    let Violation::FalseProof { resource: on, later, since, .. } = &violation else { panic!("{violation}") };
    assert_eq!((on, later.process, *since), (&resource("b"), 2, Duration::from_millis(7)));
}

#[test]
fn a_proof_for_a_reader_is_false_only_after_a_later_writer() {
    let verified = |names: &str, later: &str| {
        let mut builder = HistoryBuilder::new();
        builder.lease(1, names, 5).expired(1).lease(2, later, 6).unlocked(2);
        builder.lease(3, "a* b*", 7).unlocked(3).note(1, verifying(1)).note(1, proven(1));
        builder
    };
    verified("a*", "a*").assert_kept();
    verified("a* b*", "a* b*").assert_kept();
    for (names, later, process) in [("a*", "a", 2), ("a", "a*", 3), ("a* b*", "b", 2), ("a b*", "b*", 3)] {
        let violation = verified(names, later).assert_breaks_only(Promise::Proof);
        let Violation::FalseProof { later, .. } = violation else { panic!("{violation}") };
        assert_eq!(later.process, process, "{names}");
    }
}

#[test]
fn a_writer_between_a_lease_and_its_downgrade_breaks_exclusion() {
    let downgraded = || Event::Downgraded { attempt: AttemptId::new(9), from: AttemptId::new(1) };
    let mut builder = HistoryBuilder::new();
    builder.lease(4, "a", 4).unlocked(4).lease(1, "a", 5).unlocked(1).lease(2, "b", 6).lease(3, "a*", 6);
    builder.lease(9, "a*", 6).note(9, downgraded()).unlocked(3).unlocked(9).lease(5, "a", 7).assert_kept();
    let mut builder = HistoryBuilder::new();
    builder
        .lease(1, "a", 5)
        .began(9, 9, "a*")
        .unlocked(1)
        .lease(2, "a", 6)
        .unlocked(2)
        .granted(9, 9, 7)
        .assert_kept();
    let violation = builder.note(9, downgraded()).assert_breaks_only(Promise::Exclusion);
    let Violation::Interrupted { writer, .. } = &violation else { panic!("{violation}") };
    assert_eq!((writer.process, violation.process()), (2, 9));
}

#[test]
fn a_writer_between_a_lease_and_the_redemption_of_its_ticket_breaks_exclusion() {
    let redeemed = || Event::Redeemed { attempt: AttemptId::new(9), from: AttemptId::new(1) };
    let mut builder = HistoryBuilder::new();
    builder.lease(4, "a", 4).unlocked(4).lease(1, "a", 5).unlocked(1).lease(2, "b", 6);
    builder.lease(9, "a", 7).note(9, redeemed()).unlocked(9).lease(5, "a", 8).assert_kept();
    let mut builder = HistoryBuilder::new();
    builder.lease(1, "a", 5).unlocked(1).lease(2, "a", 6).unlocked(2).lease(9, "a", 7).assert_kept();
    let violation = builder.note(9, redeemed()).assert_breaks_only(Promise::Exclusion);
    let Violation::Interrupted { writer, .. } = &violation else { panic!("{violation}") };
    assert_eq!((writer.process, violation.process()), (2, 9));
}
