//! Waiters in line.

use super::*;
use crate::node::{
    LineUp, Queued, Unlock,
    entries::{line_up, take, withdraw},
    names,
    state::line::Spot,
};

const LIFE: u64 = 10_000;

/// The node of a test, and who listens.
struct Line {
    node: Fixture,
    deaf: Vec<Resource>,
}

impl Line {
    /// Somebody holds the resource for five seconds.
    fn held() -> Self {
        let mut line = Self { node: Fixture::new(), deaf: Vec::new() };
        line.ask(&lock("a", "holder", 5000, 0));
        line
    }

    fn ask(&mut self, entry: &Entry) -> Answer {
        let listeners = |topic: &Resource| u32::from(!self.deaf.contains(topic));
        let outcome = self.node.state.apply_before(&listeners, &terms(), entry, self.node.now());
        self.node.notices.extend(outcome.notices);
        outcome.answer
    }

    /// Somebody comes and stays: its ticket.
    fn enter(&mut self, waiter: &str) -> u64 {
        match self.ask(&line_up("a", waiter, waiter, 0, LIFE)) {
            Answer::Queued(queued) => queued.ticket,
            other => panic!("{other:?}"),
        }
    }

    fn come_back(&mut self, waiter: &str, ticket: u64) -> Answer {
        self.ask(&line_up("a", waiter, waiter, ticket, LIFE))
    }

    fn unlock(&mut self, by: &str) {
        self.ask(&unlock("a", by, true, false));
    }

    fn waiters(&self) -> Vec<String> {
        let line = self.node.state.line(&resource("a"), self.node.now());
        let spots = line.into_iter().flat_map(|line| line.spots());
        spots.map(|spot| spot.waiter.to_string()).collect()
    }

    /// Whoever was called since the last time.
    fn called(&mut self) -> Vec<Resource> {
        let notices = std::mem::take(&mut self.node.notices);
        notices.into_iter().filter(|topic| topic.as_bytes().starts_with(b"redquorum:turn:")).collect()
    }

    fn hangs_up(&mut self, waiter: &str) {
        self.deaf.push(turn(waiter));
    }
}

fn turn(waiter: &str) -> Resource {
    names::turn(&resource("a"), &owner(waiter))
}

fn is_granted(answer: &Answer) -> bool {
    matches!(answer.clone().into_parts().0, Answer::Granted { .. })
}

fn queued(answer: &Answer) -> &Queued {
    let Answer::Queued(queued) = answer else { panic!("{answer:?}") };
    queued
}

#[test]
fn a_free_resource_without_a_line_is_granted_and_leaves_none() {
    let mut line = Line { node: Fixture::new(), deaf: Vec::new() };
    assert_eq!(line.ask(&line_up("a b", "me", "w", 0, LIFE)), granted(START + 1));
    assert_eq!(
        (line.node.owner_of("a").as_deref(), line.node.owner_of("b").as_deref()),
        (Some("me"), Some("me"))
    );
    assert_eq!(line.waiters(), [""; 0]);
}

#[test]
fn a_release_calls_the_first_of_the_line_and_nobody_else() {
    let mut line = Line::held();
    let tickets = ["first", "second", "third"].map(|waiter| line.enter(waiter));
    assert!(tickets[0] >= START && tickets.is_sorted_by(|one, next| one < next), "{tickets:?}");
    line.unlock("holder");
    assert_eq!(line.called(), [turn("first")]);
    assert!(is_granted(&line.come_back("first", tickets[0])));
    assert_eq!(line.waiters(), ["second", "third"]);
    assert_eq!(line.called(), []);
}

#[test]
fn nobody_goes_before_the_first_of_the_line_while_the_resource_is_free() {
    let mut line = Line::held();
    let first = line.enter("first");
    line.unlock("holder");
    for life in [0, LIFE] {
        let answer = line.ask(&line_up("a", "newcomer", "newcomer", 0, life));
        assert_eq!(queued(&answer).holder, None);
        assert_eq!(queued(&answer).patience, Duration::from_millis(LIFE));
        assert_eq!(queued(&answer).ticket > 0, life > 0);
    }
    assert_eq!(line.waiters(), ["first", "newcomer"]);
    assert_eq!(line.called(), [turn("first"), turn("first"), turn("first")], "and each time it is called");
    assert!(is_granted(&line.come_back("first", first)));
}

#[test]
fn whoever_does_not_enter_the_line_leaves_nothing() {
    let mut line = Line::held();
    let before = line.node.state.clone();
    let answer = line.ask(&line_up("a", "me", "w", 0, 0));
    let holder = Holder {
        resource: 0,
        owner: Some(owner("holder")),
        remaining: Duration::from_secs(5),
        counter: START + 1,
    };
    let patience = Duration::from_secs(5);
    assert_eq!(
        answer,
        Answer::Queued(Queued { resource: 0, ticket: 0, rank: 0, patience, holder: Some(holder) })
    );
    assert_eq!(line.node.state, before);
}

#[test]
fn a_lock_that_arrives_twice_is_granted_twice_whoever_waits_by_now() {
    let mut line = Line::held();
    let first = line.enter("first");
    line.enter("second");
    line.unlock("holder");
    let vote = line.come_back("first", first);
    assert_eq!(line.come_back("first", first), vote);
    assert_eq!(line.waiters(), ["second"]);
}

#[test]
fn the_first_comes_back_when_the_holder_ends_and_the_others_when_the_place_before_them_does() {
    let mut line = Line::held();
    let first = line.enter("first");
    line.node.milliseconds += 1000;
    let second = line.enter("second");
    let patience = |answer: &Answer| queued(answer).patience.as_millis();
    assert_eq!(patience(&line.come_back("first", first)), 4000);
    assert_eq!(patience(&line.come_back("second", second)), 10_000);
    line.node.milliseconds += 3000;
    assert_eq!(patience(&line.come_back("second", second)), 7000);
}

#[test]
fn a_place_that_nobody_keeps_ends_and_the_next_is_first() {
    let mut line = Line::held();
    line.enter("first");
    line.node.milliseconds += 4000;
    let second = line.enter("second");
    line.node.milliseconds += LIFE - 4010;
    line.unlock("holder");
    assert_eq!(line.called(), [turn("first")]);
    line.node.milliseconds += 10;
    assert_eq!(queued(&line.come_back("second", second)).holder, None);
    line.node.milliseconds += 1;
    assert!(is_granted(&line.come_back("second", second)));
    assert_eq!(line.waiters(), [""; 0]);
}

#[test]
fn whoever_does_not_listen_is_passed_over_at_once() {
    let mut line = Line::held();
    for waiter in ["first", "second", "third"] {
        line.enter(waiter);
    }
    line.hangs_up("first");
    line.hangs_up("second");
    line.unlock("holder");
    assert_eq!(line.called(), [turn("third")]);
    assert_eq!(line.waiters(), ["third"]);
}

#[test]
fn a_newcomer_is_granted_when_nobody_in_line_listens() {
    let mut line = Line::held();
    line.enter("first");
    line.hangs_up("first");
    line.unlock("holder");
    assert!(is_granted(&line.ask(&line_up("a", "me", "w", 0, 0))));
}

#[test]
fn a_ticket_that_another_node_gave_puts_its_waiter_where_it_belongs() {
    let mut line = Line::held();
    let second = line.enter("second");
    line.come_back("first", second - 5);
    line.come_back("third", second + 5);
    assert_eq!(line.waiters(), ["first", "second", "third"]);
    line.enter("fourth");
    assert_eq!(line.waiters().last().map(String::as_str), Some("fourth"));
}

#[test]
fn whoever_gave_its_vote_back_is_still_first_by_its_ticket() {
    let mut line = Line::held();
    let first = line.enter("first");
    line.enter("second");
    line.unlock("holder");
    line.come_back("first", first);
    line.ask(&unlock("a", "first", false, false));
    line.called();
    assert!(is_granted(&line.ask(&line_up("a", "again", "first", first, LIFE))));
    assert_eq!((line.called(), line.waiters()), (vec![], vec!["second".into()]));
}

#[test]
fn a_ticket_far_ahead_is_brought_back_to_an_hour_and_one_of_0_means_the_end() {
    let mut line = Line::held();
    let hour = 3_600_000_000;
    assert_eq!(queued(&line.come_back("far", u64::MAX)).ticket, START + hour);
    assert_eq!(line.enter("last"), START + hour + 1);
    let again = line.enter("far");
    assert_eq!((again, line.waiters()), (START + hour + 2, vec!["last".into(), "far".into()]));
}

#[test]
fn a_withdrawal_takes_one_out_and_calls_the_next_only_where_nobody_holds() {
    let mut line = Line::held();
    for waiter in ["first", "second", "third"] {
        line.enter(waiter);
    }
    assert_eq!(line.ask(&withdraw("a", "second")), Answer::Withdrawn);
    assert_eq!((line.waiters(), line.called()), (vec!["first".into(), "third".into()], vec![]));
    line.unlock("holder");
    assert_eq!(line.called(), [turn("first")]);
    line.ask(&withdraw("a", "first"));
    assert_eq!(line.called(), [turn("third")]);
    line.ask(&withdraw("a", "third"));
    assert_eq!((line.waiters(), line.called()), (vec![], vec![]));
    assert_eq!(line.ask(&withdraw("a", "third")), Answer::Withdrawn);
}

#[test]
fn a_rollback_calls_the_first_and_so_does_force() {
    let mut line = Line::held();
    line.enter("first");
    line.ask(&unlock("a", "holder", false, false));
    assert_eq!(line.called(), [turn("first")]);
    line.ask(&take("a", "other", 5000));
    line.ask(&force_unlock("a"));
    assert_eq!(line.called(), [turn("first")]);
}

#[test]
fn an_unlock_calls_the_first_wherever_the_resource_is_free_whether_it_deletes_anything_or_not() {
    let mut line = Line::held();
    line.enter("first");
    line.unlock("another");
    assert_eq!(line.called(), [], "it is held");
    line.node.state.set_lock(&resource("a"), None);
    line.unlock("another");
    assert_eq!(line.called(), [turn("first")]);
}

#[test]
fn whoever_comes_first_is_refused_where_others_are_in_line_and_whoever_is_called_is_not() {
    let mut line = Line::held();
    line.enter("first");
    let refused = line.ask(&lock("a", "newcomer", 5000, 0));
    assert_eq!((queued(&refused).rank, queued(&refused).holder.is_some()), (1, true));
    line.unlock("holder");
    line.called();
    let refused = line.ask(&lock("a", "newcomer", 5000, 0));
    assert_eq!((queued(&refused).rank, queued(&refused).ticket, &queued(&refused).holder), (1, 0, &None));
    assert_eq!(line.called(), [turn("first")], "its call may have been lost");
    assert!(is_granted(&line.ask(&take("a", "called", 5000))));
    assert_eq!(line.waiters(), ["first"], "only the turn ends a place");
}

#[test]
fn newcomers_let_those_go_first_who_were_refused_for_as_long_as_a_hand_over_takes() {
    let hand_over = terms().hand_over;
    let mut line = Line::held();
    line.ask(&lock("a", "refused", 5000, 0));
    line.unlock("holder");
    assert_eq!(line.node.state.mark(&resource("a"), line.node.now()), Some(line.node.now() + hand_over));
    let put_off = line.ask(&lock("a", "newcomer", 5000, 0));
    assert_eq!((queued(&put_off).rank, &queued(&put_off).holder), (0, &None), "nobody is in line");
    assert!(is_granted(&line.ask(&take("a", "refused", 5000))));
    line.unlock("refused");
    assert!(is_granted(&line.ask(&lock("a", "newcomer", 5000, 0))), "they have had it");

    line.ask(&lock("a", "refused", 5000, 0));
    line.unlock("newcomer");
    line.node.milliseconds += u64::try_from(hand_over.as_millis()).unwrap() + 1;
    assert!(is_granted(&line.ask(&lock("a", "newcomer", 5000, 0))), "they have not come");
}

#[test]
fn a_rollback_leaves_nobody_to_be_let_go_first() {
    let mut line = Line::held();
    line.ask(&lock("a", "refused", 5000, 0));
    line.ask(&unlock("a", "holder", false, false));
    assert!(is_granted(&line.ask(&lock("a", "newcomer", 5000, 0))));
}

#[test]
fn whoever_knows_that_others_wait_lets_them_go_first_at_every_node() {
    let mut line = Line::held();
    let Entry::Unlock(known) = unlock("a", "holder", true, false) else { panic!() };
    line.ask(&Entry::Unlock(Unlock { is_awaited: true, ..known }));
    assert_eq!(queued(&line.ask(&lock("a", "newcomer", 5000, 0))).rank, 0);
}

#[test]
fn the_second_goes_before_a_first_that_was_called_and_has_not_come() {
    let mut line = Line::held();
    let first = line.enter("first");
    let [second, third] = ["second", "third"].map(|waiter| line.enter(waiter));
    line.unlock("holder");
    let overdue = u64::try_from(terms().hand_over.as_millis()).unwrap() * 3 / 4;
    line.node.milliseconds += overdue;
    assert!(!is_granted(&line.come_back("second", second)));
    line.node.milliseconds += 1;
    assert!(!is_granted(&line.come_back("third", third)), "the second is before it");
    assert!(is_granted(&line.come_back("second", second)));
    assert_eq!(line.waiters(), ["first", "third"]);
    line.unlock("second");
    assert!(is_granted(&line.come_back("first", first)), "it has kept its place");
}

#[test]
fn whoever_becomes_one_of_the_first_two_is_told() {
    let mut line = Line::held();
    let tickets = ["first", "second", "third", "fourth"].map(|waiter| line.enter(waiter));
    let ranks = ["first", "third"].map(|waiter| queued(&line.come_back(waiter, tickets[0])).rank);
    assert_eq!(ranks, [0, 1], "with a ticket of the first, it is beside it");
    let mut line = Line::held();
    let tickets = ["first", "second", "third", "fourth"].map(|waiter| line.enter(waiter));
    line.unlock("holder");
    line.node.notices.clear();
    assert!(is_granted(&line.come_back("first", tickets[0])));
    let next = |waiter: &str| names::next(&resource("a"), &owner(waiter));
    assert_eq!(line.node.notices, [next("third")]);
    line.node.notices.clear();
    line.ask(&withdraw("a", "fourth"));
    assert_eq!(line.node.notices, [], "it was behind them");
    line.enter("fifth");
    line.ask(&withdraw("a", "second"));
    assert_eq!(line.node.notices, [next("fifth")]);
}

#[test]
fn whoever_only_waits_takes_nothing_and_calls_nobody() {
    let mut line = Line { node: Fixture::new(), deaf: Vec::new() };
    let Entry::LineUp(waits) = line_up("a", "me", "w", 0, LIFE) else { panic!() };
    let answer = line.ask(&Entry::LineUp(LineUp { only_waits: true, ..waits }));
    assert_eq!((queued(&answer).rank, queued(&answer).ticket > 0), (0, true));
    assert_eq!((line.waiters(), line.called()), (vec!["w".into()], vec![]));
}

#[test]
fn a_group_stands_in_the_line_that_it_asks_for_and_is_told_which_of_its_resources_is_held() {
    let mut line = Line::held();
    let Entry::LineUp(group) = line_up("A a", "group", "group", 0, LIFE) else { panic!() };
    let answer = line.ask(&Entry::LineUp(LineUp { resource: 1, ..group }));
    assert_eq!((queued(&answer).resource, queued(&answer).rank), (1, 0));
    assert_eq!(queued(&answer).holder.as_ref().map(|holder| holder.resource), Some(1));
    assert_eq!(line.waiters(), ["group"]);
    assert_eq!(line.node.state.line(&resource("A"), line.node.now()), None);
    assert!(is_granted(&line.ask(&line_up("b", "me", "w", 0, LIFE))));
}

#[test]
fn namesakes_have_lines_of_their_own() {
    let mut line = Line::held();
    line.enter("first");
    assert!(is_granted(&line.ask(&line_up("{a}", "me", "w", 0, LIFE))));
}

#[test]
fn whoever_was_unlocked_before_it_arrives_neither_locks_nor_enters() {
    let mut line = Line::held();
    line.ask(&unlock("a", "late", false, true));
    assert_eq!(line.ask(&line_up("a", "late", "w", 0, LIFE)), Answer::Gone);
    assert_eq!(line.waiters(), [""; 0]);
}

#[test]
fn a_line_ends_with_its_last_place() {
    let mut line = Line::held();
    line.enter("first");
    line.node.milliseconds += LIFE;
    assert_eq!(line.waiters(), ["first"]);
    line.node.milliseconds += 1;
    assert_eq!(line.waiters(), [""; 0]);
    line.node.state.sweep(line.node.now());
    assert_eq!(line.node.state.line(&resource("a"), NodeTime::from_epoch(0)), None);
}

#[test]
fn places_are_ordered_by_ticket_and_then_by_name() {
    let spot = |ticket, waiter| Spot { ticket, waiter: owner(waiter), ends: NodeTime::from_epoch(0) };
    let mut spots = vec![spot(2, "a"), spot(1, "b"), spot(1, "a")];
    spots.sort();
    assert_eq!(spots, [spot(1, "a"), spot(1, "b"), spot(2, "a")]);
}
