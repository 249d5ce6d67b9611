//! Small histories with known verdicts. Both judges have to agree on each of them.

use super::*;

/// Returns a history of one operation per line: process, beginning, end, name, question and answer. The positions of
/// beginnings and ends are in any unit. An operation with the end `-` has an unknown end.
fn history(object: Object, lines: &str) -> History {
    let mut events = Vec::new();
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let parts: Vec<&str> = line.splitn(5, ' ').collect();
        let [process, begin, end, function, values] = parts[..] else { panic!("not an operation: {line}") };
        let (asked, answer) = values.split_once(" => ").unwrap_or_else(|| panic!("no answer: {line}"));
        let event = |stage: &str, time: &str, value: &str| {
            let object = object.name();
            let line = format!(
                "{{:object :{object}, :process {process}, :type :{stage}, :f :{function}, :value {value}, :time {time}}}"
            );
            crate::event::Event::parse(&line).unwrap()
        };
        events.push(event("invoke", begin, asked));
        if end != "-" {
            events.push(event("ok", end, answer));
        }
    }
    History::assemble(&events, object, i64::MAX)
}

#[track_caller]
fn assert_verdict(object: Object, expected: Verdict, lines: &str) {
    let history = history(object, lines);
    for one in Judge::ALL {
        assert_eq!(ask(one, object, &history).unwrap(), expected, "{one:?} about\n{}", history.to_edn());
    }
}

#[track_caller]
fn assert_illegal(object: Object, lines: &str) {
    assert_verdict(object, Verdict::Illegal, lines);
}

#[track_caller]
fn assert_legal(object: Object, lines: &str) {
    assert_verdict(object, Verdict::Legal, lines);
    let history = history(object, lines);
    let swapped = with_two_answers_swapped(object, &history).expect("two operations can be swapped");
    for one in Judge::ALL {
        assert_eq!(
            ask(one, object, &swapped).unwrap(),
            Verdict::Illegal,
            "{one:?} about\n{}",
            swapped.to_edn()
        );
    }
}

#[test]
fn leases_one_after_the_other_are_legal() {
    assert_legal(
        Object::Leases,
        "0 1 2 acquire nil => 10
         0 4 6 release 10 => 10
         1 3 5 acquire nil => 20
         1 7 8 release 20 => 20",
    );
}

#[test]
fn leases_that_overlap_are_illegal() {
    assert_illegal(
        Object::Leases,
        "0 1 2 acquire nil => 10
         1 3 4 acquire nil => 20
         0 5 6 release 10 => 10
         1 7 8 release 20 => 20",
    );
}

#[test]
fn a_lease_with_an_unknown_end_may_end_before_the_next_grant() {
    assert_legal(
        Object::Leases,
        "0 1 2 acquire nil => 10
         0 3 - release 10 => nil
         1 4 5 acquire nil => 20
         1 6 7 release 20 => 20",
    );
}

#[test]
fn a_lease_without_an_end_excludes_the_next_grant() {
    assert_illegal(
        Object::Leases,
        "0 1 2 acquire nil => 10
         1 3 4 acquire nil => 20
         0 5 - release 10 => nil",
    );
}

#[test]
fn readers_share_a_lease_and_exclude_writers() {
    let readers = "0 1 2 acquire-read nil => 10
                   1 3 4 acquire-read nil => 20
                   0 5 6 release 10 => 10
                   1 7 8 release 20 => 20";
    assert_legal(
        Object::Leases,
        &format!(
            "{readers}
             2 9 10 acquire-write nil => 30
             2 11 12 downgrade 30 => [30 31]
             0 13 14 acquire-read nil => 40
             2 15 16 release 31 => 31
             0 17 18 release 40 => 40
             2 19 20 acquire-write nil => 50"
        ),
    );
    assert_illegal(Object::Leases, &format!("{readers}\n2 5 6 acquire-write nil => 30"));
}

#[test]
fn a_downgraded_lease_excludes_writers() {
    assert_illegal(
        Object::Leases,
        "0 1 2 acquire-write nil => 10
         0 3 4 downgrade 10 => [10 11]
         1 5 6 acquire-write nil => 20",
    );
}

#[test]
fn each_slot_has_one_lease() {
    assert_legal(
        Object::Leases,
        "0 1 2 acquire nil => [0 10]
         1 3 4 acquire nil => [1 20]
         0 5 6 release 10 => 10
         2 7 8 acquire nil => [0 30]",
    );
    assert_illegal(
        Object::Leases,
        "0 1 2 acquire nil => [0 10]
         1 3 4 acquire nil => [0 20]",
    );
}

const TICKET: &str = "0 1 2 acquire nil => 10
                      0 3 4 issue 10 => [10 100]
                      -100 50 - expire 100 => nil";

#[test]
fn a_ticket_is_redeemed_once() {
    assert_legal(
        Object::Leases,
        &format!("{TICKET}\n1 5 6 redeem 100 => 20\n1 7 8 release 20 => 20\n0 9 10 acquire nil => 30"),
    );
    assert_illegal(
        Object::Leases,
        &format!("{TICKET}\n1 5 6 redeem 100 => 20\n1 7 8 release 20 => 20\n2 9 10 redeem 100 => 30"),
    );
}

#[test]
fn no_client_holds_the_resource_between_the_ticket_and_its_redemption() {
    let between = "2 5 6 acquire nil => 30\n2 7 8 release 30 => 30\n1 9 10 redeem 100 => 20";
    assert_illegal(Object::Leases, &format!("{TICKET}\n{between}"));
}

#[test]
fn a_ticket_excludes_other_leases_until_it_may_have_ended() {
    assert_illegal(Object::Leases, &format!("{TICKET}\n1 5 6 acquire nil => 20"));
    for spent in ["1 51 52 acquire nil => 20", "2 5 - redeem 100 => nil\n1 6 7 acquire nil => 20"] {
        assert_verdict(Object::Leases, Verdict::Legal, &format!("{TICKET}\n{spent}"));
    }
}

#[test]
fn a_released_ticket_is_not_redeemed() {
    let released = format!("{TICKET}\n1 5 6 release-ticket 100 => 100");
    assert_verdict(Object::Leases, Verdict::Legal, &format!("{released}\n2 7 8 acquire nil => 20"));
    assert_illegal(Object::Leases, &format!("{released}\n2 7 8 redeem 100 => 20"));
}

#[test]
fn tokens_that_grow_are_legal() {
    assert_legal(
        Object::Tokens,
        "0 1 2 acquire nil => 5
         1 3 4 acquire nil => 7
         0 5 6 issue nil => 8
         1 7 8 redeem nil => 9",
    );
}

#[test]
fn a_token_is_not_given_twice() {
    assert_illegal(Object::Tokens, "0 1 3 acquire nil => 5\n1 2 4 acquire nil => 5");
}

#[test]
fn concurrent_tokens_have_any_order() {
    assert_verdict(Object::Tokens, Verdict::Legal, "0 1 3 acquire nil => 7\n1 2 4 acquire nil => 5");
}

#[test]
fn readers_may_have_one_token_that_is_above_the_tokens_of_writers() {
    let readers = "0 1 2 acquire-write nil => 5\n1 3 4 acquire-read nil => 6\n2 5 6 acquire-read nil => 6";
    assert_legal(Object::Tokens, &format!("{readers}\n0 7 8 acquire-write nil => 7"));
    assert_illegal(Object::Tokens, &format!("{readers}\n0 7 8 acquire-write nil => 6"));
    assert_illegal(Object::Tokens, &format!("{readers}\n0 7 8 downgrade nil => 5"));
}

#[test]
fn tokens_of_slots_are_independent() {
    assert_legal(
        Object::Tokens,
        "0 1 2 acquire nil => [0 9]\n1 3 4 acquire nil => [1 5]\n0 5 6 acquire nil => [0 10]",
    );
}

#[test]
fn appends_that_read_all_earlier_elements_are_legal() {
    assert_legal(
        Object::Lists,
        "0 1 2 txn [[:r 0 nil] [:append 0 1]] => [[:r 0 []] [:append 0 1]]
         1 3 4 txn [[:r 0 nil] [:append 0 2]] => [[:r 0 [1]] [:append 0 2]]
         2 5 6 txn [[:r 0 nil] [:r 0 nil]] => [[:r 0 [1 2]] [:r 0 [1 2]]]
         0 7 8 txn [[:r 1 nil] [:append 1 3]] => [[:r 1 []] [:append 1 3]]",
    );
}

#[test]
fn a_lost_append_is_illegal() {
    assert_illegal(
        Object::Lists,
        "0 1 5 txn [[:r 0 nil] [:append 0 1]] => [[:r 0 []] [:append 0 1]]
         1 2 4 txn [[:r 0 nil] [:append 0 2]] => [[:r 0 []] [:append 0 2]]",
    );
}

#[test]
fn a_list_that_changes_under_a_reader_is_illegal() {
    assert_illegal(
        Object::Lists,
        "0 1 4 txn [[:r 0 nil] [:r 0 nil]] => [[:r 0 []] [:r 0 [1]]]
         1 2 3 txn [[:r 0 nil] [:append 0 1]] => [[:r 0 []] [:append 0 1]]",
    );
}

#[test]
fn an_append_with_an_unknown_end_has_happened_if_its_element_was_read() {
    let unknown = "0 1 - txn [[:r 0 nil] [:append 0 1]] => nil";
    for later in [
        "1 2 3 txn [[:r 0 nil] [:r 0 nil]] => [[:r 0 []] [:r 0 []]]",
        "1 2 3 txn [[:r 0 nil] [:r 0 nil]] => [[:r 0 [1]] [:r 0 [1]]]",
        "1 2 3 txn [[:r 0 nil] [:append 0 2]] => [[:r 0 []] [:append 0 2]]",
    ] {
        assert_verdict(Object::Lists, Verdict::Legal, &format!("{unknown}\n{later}"));
    }
    assert_illegal(
        Object::Lists,
        &format!(
            "{unknown}
             1 2 3 txn [[:r 0 nil] [:append 0 2]] => [[:r 0 [1]] [:append 0 2]]
             2 4 5 txn [[:r 0 nil] [:r 0 nil]] => [[:r 0 [2]] [:r 0 [2]]]"
        ),
    );
}

#[test]
fn the_shortest_illegal_prefix_ends_with_the_answer_that_shows_the_fault() {
    let history = history(
        Object::Tokens,
        "0 1 2 acquire nil => 5
         1 3 4 acquire nil => 5
         0 5 6 acquire nil => 7",
    );
    assert_eq!(shortest_illegal_prefix(Object::Tokens, &history).unwrap(), 4);
}

#[test]
fn an_unknown_operation_is_an_error() {
    let history = history(Object::Leases, "0 1 2 steal nil => 5");
    let error = judge(Object::Leases, &history).unwrap_err();
    assert!(error.to_string().contains("steal"), "{error}");
}
