//! S91 and S92: leases that become tickets, and clients that redeem the tickets.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering},
};

use super::*;
use crate::{
    Ticket,
    sim::{Campaign, FailingCase, Schedules},
};

/// The last ticket. Processes receive tickets by this channel, which is faster than any message, and which never
/// fails.
type Jobs = Arc<Mutex<Option<Ticket>>>;

/// The outcomes of the calls in all cases of a campaign.
#[derive(Debug, Default)]
struct Outcomes {
    issued: AtomicU64,
    redeemed: AtomicU64,
    spent: AtomicU64,
    without_quorum: AtomicU64,
    refused_writes: AtomicU64,
}

fn count(outcome: &AtomicU64) {
    outcome.fetch_add(1, Ordering::Relaxed);
}

/// Locks, reads, turns the lease into a ticket, and then writes late.
async fn give(process: Process, jobs: Jobs, outcomes: Arc<Outcomes>) {
    let (quorum, store) = (quorum(&process), process.store("r"));
    for round in 0..3_u64 {
        let random = |purpose| process.random(10 * round + purpose);
        process.sleep(millis(random(0) % 4_000)).await;
        let Ok(Some(guard)) = quorum.red_lock("r").try_lock_for(2 * TTL).await else { continue };
        let token = guard.fencing_token();
        let value = store.read(token).await;
        process.sleep(millis(random(1) % 12_000)).await;
        if !process.check_valid(&guard) {
            continue;
        }
        if let Ok(ticket) = process.into_ticket(guard, millis(1_000 + random(2) % 19_000)).await {
            count(&outcomes.issued);
            assert!(ticket.fencing_token() > token);
            *jobs.lock().unwrap() = Some(ticket);
        }
        process.sleep(millis(random(3) % 6_000)).await;
        if let Ok(value) = value
            && store.write(token, value + 1).await.is_err()
        {
            count(&outcomes.refused_writes);
        }
    }
}

/// Redeems every ticket again and again.
async fn work(process: Process, jobs: Jobs, outcomes: Arc<Outcomes>) {
    let (quorum, store) = (quorum(&process), process.store("r"));
    for round in 0..40_u64 {
        let random = |purpose| process.random(1_000 + 10 * round + purpose);
        process.sleep(micros(random(0) % 1_000_000)).await;
        let job = jobs.lock().unwrap().clone();
        let Some(ticket) = job else { continue };
        match process.redeem(&quorum, &ticket, LockOptions::new()).await {
            Ok(Some(guard)) => {
                count(&outcomes.redeemed);
                let token = guard.fencing_token();
                assert!(token > ticket.fencing_token());
                let value = store.read(token).await;
                process.sleep(millis(random(1) % 8_000)).await;
                let _is_valid = process.check_valid(&guard);
                if let Ok(value) = value {
                    store.write(token, value + 1).await.ok();
                }
                if random(2) % 2 == 0 {
                    drop(guard.unlock().await);
                }
            }
            Ok(None) => count(&outcomes.spent),
            Err(_) => count(&outcomes.without_quorum),
        }
    }
}

/// Locks like any other client.
async fn contend(process: Process) {
    let (quorum, store) = (quorum(&process), process.store("r"));
    for round in 0..6_u64 {
        process.sleep(millis(process.random(5_000 + round) % 8_000)).await;
        let Ok(Some(guard)) = quorum.red_lock("r").try_lock_for(2 * TTL).await else { continue };
        let token = guard.fencing_token();
        if let Ok(value) = store.read(token).await {
            process.sleep(millis(50)).await;
            store.write(token, value + 1).await.ok();
        }
    }
}

/// Runs random schedules of tolerated faults with a client that issues tickets, two clients that redeem each ticket
/// again and again, and another client. Checks all promises, and that no lease was granted between the lease of a
/// ticket and the lease that redeems the ticket.
fn campaign(cases: u64, rule: Option<Mutation>) -> (Arc<Outcomes>, Option<Box<FailingCase<Schedule>>>) {
    let outcomes = Arc::new(Outcomes::default());
    let schedules = Schedules::tolerated().nodes([3, 5]).processes(4..=4).strategy();
    let found = Campaign::new(cases).shrinks(40).run(&schedules, |schedule| {
        let _broken = break_rule(rule);
        let jobs = Jobs::default();
        let report = Simulation::new(schedule.clone()).horizon(200 * SECOND).run(|process| {
            let (jobs, outcomes) = (Arc::clone(&jobs), Arc::clone(&outcomes));
            async move {
                match process.index() {
                    0 => give(process, jobs, outcomes).await,
                    1 | 2 => work(process, jobs, outcomes).await,
                    _ => contend(process).await,
                }
            }
        });
        report.check(&Promises::ALL).map(|()| report)
    });
    (outcomes, found.err())
}

#[test]
fn s91_no_lease_is_granted_between_a_ticket_and_its_redemption() {
    let (outcomes, found) = campaign(100, None);
    assert!(found.is_none(), "{}", found.unwrap());
    let counts = [
        &outcomes.issued,
        &outcomes.redeemed,
        &outcomes.spent,
        &outcomes.without_quorum,
        &outcomes.refused_writes,
    ];
    let [issued, redeemed, spent, without_quorum, refused_writes] =
        counts.map(|count| count.load(Ordering::Relaxed));
    assert!(redeemed > 100 && redeemed <= issued, "{outcomes:?}");
    assert!(spent > 0 && refused_writes > 0 && without_quorum < spent, "{outcomes:?}");
}

#[test]
fn s91_a_redemption_without_proof_or_with_the_lease_id_of_the_ticket_breaks_a_promise() {
    for rule in [Mutation::RedeemWithoutProof, Mutation::RedeemAsTicket] {
        let (_, found) = campaign(100, Some(rule));
        assert!(found.is_some(), "{rule:?}");
    }
}

/// Runs a giver that dies after it has issued a ticket, and a worker that is killed after its redemption. Returns the
/// time of the grant to the next client.
fn killed(redeems: bool) -> Report {
    let schedule = steady(3, 3).with(3 * SECOND, Fault::Kill { process: 1 });
    let jobs = Jobs::default();
    run(schedule, move |process| {
        let jobs = Arc::clone(&jobs);
        async move {
            let quorum = quorum(&process);
            match process.index() {
                0 => {
                    let guard = quorum.red_lock("r").lock().await.unwrap();
                    let ticket = process.into_ticket(guard, millis(15_000)).await.unwrap();
                    *jobs.lock().unwrap() = Some(ticket);
                }
                1 => {
                    process.sleep(SECOND).await;
                    let ticket = jobs.lock().unwrap().clone().filter(|_| redeems);
                    let Some(ticket) = ticket else { return };
                    // The first renewal would come at a random time before or after the death.
                    let options = LockOptions::new().without_renewal();
                    let guard = quorum.redeem(&ticket, options).await.unwrap();
                    assert!(guard.is_some());
                    process.sleep(60 * SECOND).await;
                }
                _ => probe(&process, 2 * SECOND, millis(100)).await,
            }
        }
    })
}

#[test]
fn s92_the_ttl_of_the_ticket_or_of_the_redeemer_ends_the_hold_after_a_death() {
    let [unredeemed, redeemed] = [false, true].map(killed);
    let next = |report: &Report| granted(report, 2)[0];
    assert!(next(&unredeemed) > 14 * SECOND && next(&unredeemed) < 16 * SECOND, "{:?}", next(&unredeemed));
    // The worker redeemed after 1 s with a ttl of 10 s, in place of the rest of the ticket.
    assert!(next(&redeemed) > 10 * SECOND && next(&redeemed) < 12 * SECOND, "{:?}", next(&redeemed));
    assert_keeps(&redeemed, &Promises::ALL);
}

/// A client redeems a ticket that one node never had, because the requests of the giver to this node were held back. The
/// messages of that node take `by` longer. Returns whether the redemption succeeds.
fn redeems_without(node: usize, by: Duration) -> bool {
    let mut schedule = steady(3, 2);
    schedule.latency = Latency::between(millis(10), millis(10));
    let schedule = cut(schedule, 0, &[node], PartitionDirection::Both, SECOND, 8 * SECOND)
        .with(2 * SECOND, Fault::Far { node, by, lasts: 3 * SECOND });
    let jobs = Jobs::default();
    let is_redeemed = Arc::new(AtomicU64::new(0));
    let redeemed = Arc::clone(&is_redeemed);
    let report = run(schedule, move |process| {
        let (jobs, redeemed) = (Arc::clone(&jobs), Arc::clone(&redeemed));
        async move {
            let quorum = quorum(&process);
            if process.index() == 0 {
                let guard = quorum.red_lock("r").lock().await.unwrap();
                process.sleep(SECOND + millis(500)).await;
                let ticket = process.into_ticket(guard, millis(15_000)).await.unwrap();
                *jobs.lock().unwrap() = Some(ticket);
                return;
            }
            process.sleep(3 * SECOND).await;
            let Some(ticket) = jobs.lock().unwrap().clone() else { panic!("no ticket") };
            if process.redeem(&quorum, &ticket, LockOptions::new()).await.unwrap().is_some() {
                count(&redeemed);
            }
        }
    });
    assert_keeps(&report, &Promises::ALL);
    is_redeemed.load(Ordering::Relaxed) == 1
}

#[test]
fn s91_a_client_alone_redeems_a_ticket_that_one_slow_node_never_had() {
    // The delays include refusals that arrive before, during and after the request to the next node.
    let fails = |node: usize| (0..=150).step_by(2).map(millis).any(|by| !redeems_without(node, by));
    let queue_node = (0..3).find(|node| breaking(Mutation::RedeemUntilFirstRefusal, || fails(*node)));
    assert!(queue_node.is_some(), "the first refusal of the queue node decides, and no redemption fails");
    assert!(!(0..3).any(fails));
}

/// Several clients that redeem one ticket at the same time, and the nodes.
#[derive(Clone, Copy, Debug)]
struct Race {
    nodes: usize,
    clients: usize,
    /// A node that hangs.
    hung: Option<usize>,
    /// Whether messages of one node take so long that the next node is asked, or nearly so.
    is_one_far: bool,
}

/// The number of runs of each race.
const RACES: u64 = 200;

/// Returns the number of runs of a race in which no client redeems the ticket.
fn without_winner(race: Race) -> u64 {
    let has_no_winner = |seed: &u64| {
        let mut schedule = Schedule::without_faults(*seed, race.nodes, 1 + race.clients);
        schedule.latency = Latency::between(micros(200), millis(5));
        if let Some(node) = race.hung {
            schedule = schedule.with(SECOND, Fault::Hang { node, lasts: Duration::MAX });
        }
        if race.is_one_far {
            let (node, by) =
                (usize::try_from(*seed).unwrap() % race.nodes, micros(58_000 + 500 * (seed % 16)));
            schedule = schedule.with(SECOND, Fault::Far { node, by, lasts: Duration::MAX });
        }
        let jobs = Jobs::default();
        let winners = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&winners);
        let report = run(schedule, move |process| {
            let (jobs, winners) = (Arc::clone(&jobs), Arc::clone(&counted));
            async move {
                let quorum = quorum(&process);
                if process.index() == 0 {
                    let guard = quorum.red_lock("r").lock().await.unwrap();
                    let ticket = process.into_ticket(guard, millis(15_000)).await.unwrap();
                    *jobs.lock().unwrap() = Some(ticket);
                    return;
                }
                process.sleep(2 * SECOND + micros(process.random(0) % 2_000)).await;
                let Some(ticket) = jobs.lock().unwrap().clone() else { panic!("no ticket") };
                if let Ok(Some(_guard)) = process.redeem(&quorum, &ticket, LockOptions::new()).await {
                    count(&winners);
                    process.sleep(SECOND).await;
                }
            }
        });
        assert_keeps(&report, &Promises::ALL);
        let winners = winners.load(Ordering::Relaxed);
        assert!(winners <= 1, "{race:?}, seed {seed}: {winners} redemptions");
        winners == 0
    };
    (0..RACES).filter(has_no_winner).count().try_into().unwrap()
}

#[test]
fn s91_clients_that_redeem_at_once_rarely_spend_a_ticket_in_vain() {
    let whole = Race { nodes: 5, clients: 3, hung: None, is_one_far: false };
    for race in [
        whole,
        Race { nodes: 3, ..whole },
        Race { hung: Some(0), clients: 2, ..whole },
        Race { hung: Some(1), clients: 2, nodes: 3, ..whole },
        Race { is_one_far: true, ..whole },
        Race { is_one_far: true, nodes: 3, ..whole },
        Race { is_one_far: true, hung: Some(0), clients: 2, ..whole },
    ] {
        let (in_vain, broken) =
            (without_winner(race), breaking(Mutation::RedeemAtAllNodes, || without_winner(race)));
        assert!(in_vain <= RACES / 20, "{race:?}: {in_vain} of {RACES}");
        assert!(broken > RACES / 5, "{race:?}: {broken} of {RACES}, with all nodes asked at once");
    }
}
