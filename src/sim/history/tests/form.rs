//! Impossible entries.

use super::*;

#[test]
fn nothing_happens_to_an_attempt_that_never_began() {
    assert_eq!(Script::new().granted(1, 1, 5).is_malformed(), "the attempt never began");
    assert_eq!(Script::new().note(1, looked(1, true)).is_malformed(), "the attempt never began");
}

#[test]
fn an_attempt_begins_once_and_is_decided_once() {
    let lost = || Event::Lost { attempt: AttemptId::new(1) };
    assert_eq!(
        Script::new().began(1, 1, "a").began(1, 1, "a").is_malformed(),
        "the attempt has begun before"
    );
    assert_eq!(
        Script::new().lease(1, "a", 5).granted(1, 1, 6).is_malformed(),
        "the attempt was granted before"
    );
    assert_eq!(
        Script::new().lease(1, "a", 5).note(1, lost()).is_malformed(),
        "the attempt was granted before"
    );
    let mut script = Script::new();
    assert_eq!(
        script.began(1, 1, "a").note(1, lost()).granted(1, 1, 6).is_malformed(),
        "the attempt was lost before"
    );
}

#[test]
fn a_lease_ends_once_and_after_its_grant() {
    assert_eq!(
        Script::new().lease(1, "a", 5).expired(1).unlocked(1).is_malformed(),
        "the lease has ended before"
    );
    for event in [ended(1, true), announced(1), reentered(1, 5), verifying(1), proven(1)] {
        assert_eq!(
            Script::new().began(1, 1, "a").note(1, event).is_malformed(),
            "the attempt was not granted"
        );
    }
}

#[test]
fn a_proof_needs_a_verification_of_its_own() {
    let mut script = Script::new();
    script.lease(1, "a", 5).note(1, verifying(1)).note(1, proven(1)).is_kept();
    assert_eq!(script.note(1, proven(1)).is_malformed(), "no verification began");
}

#[test]
fn resources_are_present_sorted_and_unique() {
    for names in ["b a", "a a"] {
        assert!(Script::new().began(1, 1, names).is_malformed().contains("unsorted"), "{names}");
    }
    let event = Event::Began { attempt: AttemptId::new(1), resources: Vec::new(), shared: Vec::new() };
    assert!(Script::new().note(1, event).is_malformed().contains("missing"));
}

#[test]
fn shared_resources_are_sorted_and_among_the_resources() {
    for shared in ["c", "b a", "b b"] {
        let [resources, shared] = ["a b", shared].map(|names| names.split(' ').map(resource).collect());
        let event = Event::Began { attempt: AttemptId::new(1), resources, shared };
        assert!(Script::new().note(1, event).is_malformed().starts_with("the shared resources"));
    }
}

#[test]
fn an_entry_before_its_predecessor_is_reported_and_still_counts() {
    let mut script = Script::new();
    script.lease(1, "a", 5);
    script.history.note(Duration::ZERO, 1, ended(1, true));
    script.lease(2, "a", 6);
    assert_eq!(script.is_malformed(), "time runs backwards");
}

#[test]
fn malformed_entries_are_reported_without_promises_and_break_none() {
    let mut script = Script::new();
    let violations = script.unlocked(1).history.check(&Promises::NONE).unwrap_err();
    assert_eq!(violations.as_slice().first().and_then(Violation::promise), None);
    assert_eq!(
        violations.to_string(),
        "entry 0 of the history, of process 1 at 1.000 ms, cannot be: the attempt never began"
    );
}

#[test]
fn the_text_of_many_violations_is_cut() {
    let mut script = Script::new();
    for process in 0..25 {
        script.note(process, Event::Stalled);
    }
    let text = script.history.check(&Promises::ALL).unwrap_err().to_string();
    assert_eq!((text.lines().count(), text.lines().last()), (21, Some("and 5 more")));
}
