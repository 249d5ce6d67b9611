//! Exclusion, order, residue, liveness, reentry, honesty and proof.

use super::*;

#[test]
fn leases_that_follow_each_other_are_disjoint_even_within_one_instant() {
    let mut script = Script::new();
    script.lease(1, "a", 5).began(2, 2, "a").granted(2, 2, 6).at_once(1, ended(1, false)).is_kept();
    script.lease(3, "b", 5).is_kept();
}

#[test]
fn a_lease_granted_while_another_is_held_overlaps() {
    let mut script = Script::new();
    let violation = script.lease(1, "a", 5).lease(2, "a", 6).unlocked(1).breaks(Promise::Exclusion);
    assert_eq!(
        violation.to_string(),
        "two leases on \"a\" overlap: attempt 1 of process 1 (token 5, begun at 1.000 ms, held from \
         2.000 to 5.000 ms), and attempt 2 of process 2 (token 6, begun at 3.000 ms, held from 4.000 ms on)"
    );
    assert_eq!((violation.at(), violation.process()), (Duration::from_millis(4), 2));
}

#[test]
fn a_lease_on_a_group_excludes_others_on_each_of_its_resources() {
    let violation = Script::new().lease(1, "a b", 5).lease(2, "b c", 6).breaks(Promise::Exclusion);
    let Violation::Overlap { resource: on, .. } = violation else { panic!("{violation}") };
    assert_eq!(on, resource("b"));
}

#[test]
fn a_long_lease_is_not_forgotten_for_a_short_one() {
    let mut script = Script::new();
    script.lease(1, "a", 5).lease(2, "a", 6).unlocked(2).lease(3, "a", 7);
    let overlaps: Vec<_> = script.broken().iter().map(Violation::process).collect();
    assert_eq!(overlaps, [2, 3]);
}

#[test]
fn tokens_of_one_resource_may_repeat_those_of_another() {
    Script::new().lease(1, "a", 5).lease(2, "b", 5).unlocked(1).lease(3, "a", 6).is_kept();
}

#[test]
fn a_token_that_comes_twice_breaks_the_order() {
    let violation = Script::new().lease(1, "a", 5).unlocked(1).lease(2, "a", 5).breaks(Promise::Order);
    assert!(matches!(violation, Violation::RepeatedToken { .. }));
}

#[test]
fn a_smaller_token_breaks_the_order_if_its_attempt_began_after_the_grant() {
    let violation = Script::new().lease(1, "a", 5).unlocked(1).lease(2, "a", 4).breaks(Promise::Order);
    assert!(matches!(violation, Violation::FallingToken { .. }));
}

#[test]
fn a_smaller_token_is_fine_if_its_attempt_began_before_the_grant() {
    Script::new().began(2, 2, "a").lease(1, "a", 5).unlocked(1).granted(2, 2, 4).is_kept();
}

#[test]
fn readers_overlap_with_each_other_and_with_no_writer() {
    let mut script = Script::new();
    script.lease(1, "a*", 5).lease(2, "a*", 5).unlocked(2).lease(3, "a*", 6).unlocked(3).is_kept();
    let writer = |script: &mut Script| script.lease(4, "a", 7).breaks(Promise::Exclusion).to_string();
    assert!(writer(&mut script).contains("overlap: attempt 1"), "the last that is held still");
    let reader = Script::new().lease(1, "a", 5).lease(2, "a*", 6).breaks(Promise::Exclusion);
    assert_eq!(reader.process(), 2);
}

#[test]
fn a_group_may_read_one_resource_and_write_another() {
    let mut script = Script::new();
    script.lease(1, "a b*", 5).lease(2, "b* c", 6).lease(3, "b*", 6).is_kept();
    let violation = script.lease(4, "b c*", 7).broken();
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
fn tokens_may_stay_the_same_from_reader_to_reader_and_never_fall() {
    let mut script = Script::new();
    script.lease(1, "a*", 5).lease(2, "a*", 5).unlocked(1).unlocked(2).is_kept();
    let fallen = script.lease(3, "a*", 4).breaks(Promise::Order);
    assert!(matches!(fallen, Violation::FallingToken { .. }));
    for (first, second) in [("a*", "a"), ("a", "a*")] {
        let repeated =
            Script::new().lease(1, first, 5).unlocked(1).lease(2, second, 5).breaks(Promise::Order);
        assert!(matches!(repeated, Violation::RepeatedToken { .. }), "{first} {second}");
    }
}

#[test]
fn a_key_that_stays_is_residue() {
    let residue = Event::Residue { attempt: AttemptId::new(1), node: 2 };
    let violation = Script::new().lease(1, "a", 5).unlocked(1).note(9, residue).breaks(Promise::Residue);
    assert_eq!(violation.to_string(), "node 2 still has a key of attempt 1 of process 1 at 4.000 ms");
}

#[test]
fn a_client_that_waits_for_ever_is_stalled() {
    let violation = Script::new().note(3, Event::Stalled).breaks(Promise::Liveness);
    assert_eq!(violation.to_string(), "process 3 still waits at 1.000 ms");
}

#[test]
fn a_reentry_shows_the_token_of_the_lease() {
    let mut script = Script::new();
    script.lease(1, "a", 5).note(1, reentered(1, 5)).is_kept();
    script.note(1, reentered(1, 6)).breaks(Promise::Reentry);
}

#[test]
fn a_lease_looks_valid_from_its_grant_to_its_end() {
    let mut script = Script::new();
    script.began(1, 1, "a").note(1, looked(1, false)).granted(1, 1, 5).at_once(1, looked(1, true));
    script.note(1, looked(1, true)).at_once(1, ended(1, true)).at_once(1, looked(1, false)).is_kept();
}

#[test]
fn a_lease_that_looks_valid_after_its_end_is_dishonest() {
    let mut script = Script::new();
    let violation = script.lease(1, "a", 5).expired(1).at_once(1, looked(1, true)).breaks(Promise::Honesty);
    assert!(matches!(violation, Violation::LateValidity { .. }));
}

#[test]
fn an_attempt_that_looks_valid_before_its_grant_is_dishonest() {
    let mut script = Script::new();
    let violation =
        script.began(1, 1, "a").note(1, looked(1, true)).granted(1, 1, 5).breaks(Promise::Honesty);
    assert!(matches!(violation, Violation::EarlyValidity { .. }));
}

#[test]
fn a_loss_is_announced_no_later_than_the_end() {
    Script::new().lease(1, "a", 5).note(1, announced(1)).expired(1).is_kept();
    Script::new().lease(1, "a", 5).expired(1).at_once(1, announced(1)).is_kept();
    Script::new().lease(1, "a", 5).unlocked(1).note(1, announced(1)).is_kept();
    Script::new().lease(1, "a", 5).note(1, announced(1)).expired(1).note(1, announced(1)).is_kept();
    let mut late = Script::new();
    let violation = late.lease(1, "a", 5).expired(1).note(1, announced(1)).breaks(Promise::Honesty);
    assert!(matches!(violation, Violation::LateLoss { .. }));
    assert_eq!(late.history.check(&Promises::ALL.with_grace(Duration::from_millis(1))), Ok(()));
}

#[test]
fn a_verification_may_prove_if_the_later_lease_was_granted_after_it_began() {
    let mut script = Script::new();
    script.lease(1, "a", 5).note(1, verifying(1)).expired(1).lease(2, "a", 6).note(1, proven(1)).is_kept();
}

#[test]
fn a_verification_that_proves_after_a_later_grant_is_false() {
    let mut script = Script::new();
    script.lease(1, "a b", 5).expired(1).lease(2, "b", 6).unlocked(2).note(1, verifying(1)).is_kept();
    let violation = script.note(1, proven(1)).breaks(Promise::Proof);
    let Violation::FalseProof { resource: on, later, since, .. } = &violation else { panic!("{violation}") };
    assert_eq!((on, later.process, *since), (&resource("b"), 2, Duration::from_millis(7)));
}

#[test]
fn a_reader_is_proven_beside_readers_and_not_after_a_writer() {
    let verified = |names: &str, later: &str| {
        let mut script = Script::new();
        script.lease(1, names, 5).expired(1).lease(2, later, 6).unlocked(2);
        script.lease(3, "a* b*", 7).unlocked(3).note(1, verifying(1)).note(1, proven(1));
        script
    };
    verified("a*", "a*").is_kept();
    verified("a* b*", "a* b*").is_kept();
    for (names, later, which) in [("a*", "a", 2), ("a", "a*", 3), ("a* b*", "b", 2), ("a b*", "b*", 3)] {
        let violation = verified(names, later).breaks(Promise::Proof);
        let Violation::FalseProof { later, .. } = violation else { panic!("{violation}") };
        assert_eq!(later.process, which, "{names}");
    }
}

#[test]
fn no_writer_comes_between_a_lease_and_its_downgrade() {
    let downgraded = || Event::Downgraded { attempt: AttemptId::new(9), from: AttemptId::new(1) };
    let mut script = Script::new();
    script.lease(4, "a", 4).unlocked(4).lease(1, "a", 5).unlocked(1).lease(2, "b", 6).lease(3, "a*", 6);
    script.lease(9, "a*", 6).note(9, downgraded()).unlocked(3).unlocked(9).lease(5, "a", 7).is_kept();
    let mut script = Script::new();
    script
        .lease(1, "a", 5)
        .began(9, 9, "a*")
        .unlocked(1)
        .lease(2, "a", 6)
        .unlocked(2)
        .granted(9, 9, 7)
        .is_kept();
    let violation = script.note(9, downgraded()).breaks(Promise::Exclusion);
    let Violation::Interrupted { writer, .. } = &violation else { panic!("{violation}") };
    assert_eq!((writer.process, violation.process()), (2, 9));
}
