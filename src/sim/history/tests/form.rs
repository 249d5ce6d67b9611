//! Tests of malformed entries, which are impossible after the entries before them, and of the text of
//! violations.

use super::*;

#[test]
fn an_entry_of_an_attempt_that_never_began_is_malformed() {
    assert_eq!(HistoryBuilder::new().granted(1, 1, 5).malformed_reason(), "the attempt never began");
    assert_eq!(HistoryBuilder::new().note(1, checked(1, true)).malformed_reason(), "the attempt never began");
}

#[test]
fn a_second_start_or_a_second_outcome_of_an_attempt_is_malformed() {
    let lost = || Event::Lost { attempt: AttemptId::new(1) };
    assert_eq!(
        HistoryBuilder::new().began(1, 1, "a").began(1, 1, "a").malformed_reason(),
        "the attempt has begun before"
    );
    assert_eq!(
        HistoryBuilder::new().lease(1, "a", 5).granted(1, 1, 6).malformed_reason(),
        "the attempt was granted before"
    );
    assert_eq!(
        HistoryBuilder::new().lease(1, "a", 5).note(1, lost()).malformed_reason(),
        "the attempt was granted before"
    );
    let mut builder = HistoryBuilder::new();
    assert_eq!(
        builder.began(1, 1, "a").note(1, lost()).granted(1, 1, 6).malformed_reason(),
        "the attempt was lost before"
    );
}

#[test]
fn a_second_end_and_lease_events_before_the_grant_are_malformed() {
    assert_eq!(
        HistoryBuilder::new().lease(1, "a", 5).expired(1).unlocked(1).malformed_reason(),
        "the lease has ended before"
    );
    for event in [ended(1, true), announced(1), reentered(1, 5), verifying(1), proven(1)] {
        assert_eq!(
            HistoryBuilder::new().began(1, 1, "a").note(1, event).malformed_reason(),
            "the attempt was not granted"
        );
    }
}

#[test]
fn each_proof_needs_its_own_verification() {
    let mut builder = HistoryBuilder::new();
    builder.lease(1, "a", 5).note(1, verifying(1)).note(1, proven(1)).assert_kept();
    assert_eq!(builder.note(1, proven(1)).malformed_reason(), "no verification began");
}

#[test]
fn resources_must_be_present_sorted_and_unique() {
    for names in ["b a", "a a"] {
        assert!(HistoryBuilder::new().began(1, 1, names).malformed_reason().contains("unsorted"), "{names}");
    }
    let event = Event::Began { attempt: AttemptId::new(1), resources: Vec::new(), shared: Vec::new() };
    assert!(HistoryBuilder::new().note(1, event).malformed_reason().contains("missing"));
}

#[test]
fn shared_resources_must_be_sorted_and_among_the_resources() {
    for shared in ["c", "b a", "b b"] {
        let [resources, shared] = ["a b", shared].map(|names| names.split(' ').map(resource).collect());
        let event = Event::Began { attempt: AttemptId::new(1), resources, shared };
        assert!(HistoryBuilder::new().note(1, event).malformed_reason().starts_with("the shared resources"));
    }
}

#[test]
fn an_entry_with_an_earlier_time_is_malformed_and_still_counts() {
    let mut builder = HistoryBuilder::new();
    builder.lease(1, "a", 5);
    builder.history.note(Duration::ZERO, 1, ended(1, true));
    builder.lease(2, "a", 6);
    assert_eq!(builder.malformed_reason(), "time runs backwards");
}

#[test]
fn malformed_entries_are_reported_and_break_no_promise() {
    let mut builder = HistoryBuilder::new();
    let violations = builder.unlocked(1).history.check(&Promises::NONE).unwrap_err();
    assert_eq!(violations.as_slice().first().and_then(Violation::promise), None);
    assert_eq!(
        violations.to_string(),
        "entry 0 of the history, of process 1 at 1.000 ms, cannot be: the attempt never began"
    );
}

#[test]
fn the_text_of_violations_has_at_most_20_violations() {
    let mut builder = HistoryBuilder::new();
    for process in 0..25 {
        builder.note(process, Event::Stalled);
    }
    let text = builder.history.check(&Promises::ALL).unwrap_err().to_string();
    assert_eq!((text.lines().count(), text.lines().last()), (21, Some("and 5 more")));
}
