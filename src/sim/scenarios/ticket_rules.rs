//! S91 and S92: the rules of tickets, each of which a schedule breaks if the rule does not hold.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use futures::FutureExt;

use super::*;
use crate::{
    Ticket,
    inspection::NodeInspection,
    sim::{Direction, Memory, Verdict},
};

/// The channel of a ticket between two processes, which is faster than any message and never fails.
type Channel = Arc<Mutex<Option<Ticket>>>;

/// The ttl of the ticket, which ends after all other events.
const TICKET_TTL: Duration = millis(18_000);

/// The work of process 0: locks at the start, and turns the lease into a ticket after a second.
async fn issue(process: Process, channel: Channel) {
    let quorum = quorum(&process);
    let guard = quorum.red_lock("r").lock().await.unwrap();
    process.sleep(SECOND).await;
    let ticket = guard.into_ticket(TICKET_TTL).await.unwrap();
    *channel.lock().unwrap() = Some(ticket);
    // The connections stay, so that late requests of this process still arrive.
    process.sleep(2 * TTL).await;
}

/// Runs [`issue`] in process 0, `redeem` with the ticket in process 1 after `from`, and [`probe`] every 10 ms from
/// `probes_from` in process 2, if the schedule has this process. Returns the report and the result of `redeem`.
fn with_ticket<Redeem>(
    schedule: Schedule,
    from: Duration,
    probes_from: Duration,
    redeem: impl Fn(Process, Quorum, Ticket) -> Redeem + Copy + Send + 'static,
) -> (Report, usize)
where
    Redeem: Future<Output = usize> + Send + 'static,
{
    let (channel, result) = (Channel::default(), Arc::new(AtomicUsize::new(usize::MAX)));
    let returned = Arc::clone(&result);
    let report = run(schedule, move |process| {
        let (channel, result) = (Arc::clone(&channel), Arc::clone(&result));
        match process.index() {
            0 => issue(process, channel).boxed(),
            1 => async move {
                let quorum = quorum(&process);
                process.sleep(from).await;
                let ticket = channel.lock().unwrap().clone().expect("the ticket is issued");
                result.store(redeem(process, quorum, ticket).await, Ordering::Relaxed);
            }
            .boxed(),
            _ => async move { probe(&process, probes_from, millis(10)).await }.boxed(),
        }
    });
    (report, returned.load(Ordering::Relaxed))
}

/// Redeems the ticket without renewals.
async fn redeemed(quorum: &Quorum, ticket: &Ticket) -> Option<LockGuard> {
    quorum.redeem(ticket, LockOptions::new().without_renewal()).await.unwrap()
}

/// Returns the number of nodes that have the key of this ticket, or of any lease.
async fn nodes_with_key(quorum: &Quorum, ticket: Option<&Ticket>) -> usize {
    let inspection = quorum.inspect("r").await.unwrap();
    let id = ticket.map(Ticket::id);
    let has_key = |node: &&NodeInspection| match &id {
        Some(id) => node.holder() == Ok(Some(id)),
        None => node.is_held(),
    };
    inspection.nodes().filter(has_key).count()
}

#[test]
fn s91_a_redemption_has_a_larger_token_and_its_giver_has_ended() {
    let passed_on = || {
        with_ticket(steady(3, 2), 2 * SECOND, Duration::ZERO, async |process, quorum, ticket| {
            let guard = redeemed(&quorum, &ticket).await.expect("the ticket is good");
            process.sleep(SECOND).await;
            usize::from(guard.fencing_token() > ticket.fencing_token())
        })
    };
    let (report, is_larger) = passed_on();
    assert_keeps(&report, &Promises::ALL);
    assert_eq!(is_larger, 1);
    assert_eq!(breaking(Mutation::KeepTicketToken, passed_on).1, 0);
    assert!(breaks(&breaking(Mutation::GiverContinues, passed_on).0, Promise::Exclusion));
}

/// The ticket is on nodes 0 and 2. Its key on node 0 ends early, because the clock of node 0 is stepped, and the key of
/// the giver on node 1 ends by its ttl. Process 2 then locks on nodes 0 and 1, and unlocks. Now the ticket reaches
/// node 1, so that two nodes have the ticket again. Returns whether process 1 redeems the ticket after that.
fn redeemed_after_another_lease() -> bool {
    let schedule = cut(steady(3, 3), 0, &[1], PartitionDirection::Requests, millis(500), 13 * SECOND);
    let schedule = schedule.with(11 * SECOND, Fault::Step { node: 0, by: 20_000 });
    let redeem = async |_: Process, quorum: Quorum, ticket: Ticket| {
        assert_eq!(nodes_with_key(&quorum, Some(&ticket)).await, 2);
        usize::from(redeemed(&quorum, &ticket).await.is_some())
    };
    let (report, is_redeemed) = with_ticket(schedule, 14 * SECOND, millis(11_500), redeem);
    assert_eq!(granted(&report, 2).len(), 1);
    is_redeemed == 1
}

#[test]
fn s91_a_ticket_that_arrives_late_is_spent_after_another_lease() {
    assert!(!redeemed_after_another_lease());
    assert!(breaking(Mutation::RedeemWithoutCounter, redeemed_after_another_lease));
}

#[test]
fn s91_the_validity_of_a_redemption_begins_with_its_first_request() {
    // The votes arrive late. The redeemer keeps its lease until the validity ends, while process 2 contends.
    let redeemed_late = || {
        let late = |schedule: Schedule, (node, index)| {
            schedule.with_message(1, node, Direction::Reply, index, Verdict::Delay(millis(700)))
        };
        let votes = (0..3).flat_map(|node| [(node, 2), (node, 3)]);
        let schedule = votes.fold(steady(3, 3), late);
        with_ticket(schedule, 2 * SECOND, 3 * SECOND, async |process, quorum, ticket| {
            let guard = redeemed(&quorum, &ticket).await.expect("the ticket is good");
            process.lost(&guard).await;
            1
        })
    };
    let (report, _) = redeemed_late();
    assert_keeps(&report, &Promises::ALL);
    assert_eq!((granted(&report, 1).len(), granted(&report, 2).len()), (1, 1));
    let (broken, _) = breaking(Mutation::StartAfterFirstAnswer, redeemed_late);
    assert!(breaks(&broken, Promise::Exclusion));
}

/// Returns the number of nodes with a key, ten seconds after a redemption or a release.
fn left(schedule: Schedule, redeems: bool) -> usize {
    let act = move |process: Process, quorum: Quorum, ticket: Ticket| async move {
        if redeems {
            let guard = redeemed(&quorum, &ticket).await.expect("the ticket is good");
            guard.unlock().await.unwrap();
        } else {
            assert!(quorum.release(&ticket).await.unwrap().has_quorum());
        }
        process.sleep(10 * SECOND).await;
        nodes_with_key(&quorum, None).await
    };
    let (report, left) = with_ticket(schedule, 2 * SECOND, Duration::ZERO, act);
    assert_keeps(&report, &Promises::ALL);
    left
}

#[test]
fn s92_neither_a_redemption_nor_a_release_leaves_the_ticket_on_a_node() {
    // Node 2 is down during the redemption, and comes up with the ticket.
    let redeemed = || {
        let down = Fault::Crash { node: 2, lasts: 2 * SECOND, memory: Memory::Kept };
        left(steady(3, 2).with(millis(1_500), down), true)
    };
    assert_eq!(redeemed(), 0);
    assert_eq!(breaking(Mutation::LeaveTicket, redeemed), 1);
    // The ticket reaches node 2 after the release.
    let released =
        || left(cut(steady(3, 2), 0, &[2], PartitionDirection::Requests, millis(500), 3 * SECOND), false);
    assert_eq!(released(), 0);
    assert_eq!(breaking(Mutation::NoTombstoneForTicket, released), 1);
}
