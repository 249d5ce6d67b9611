//! The order, the limits and the repetition of requests in the send queue.

use futures::FutureExt;

use super::*;
use crate::{
    mutation::{Mutation, break_rule},
    node::{
        ForceUnlock, Inspect, Lock, Observe, Renew, Resources, Tombstone, Unlock, Withdraw,
        request::{MAX_GROUP_SIZE, MAX_OPERATIONS, MAX_RESOURCES},
    },
    values::{LeaseId, Resource},
};

mod properties;

const NODE_TIMEOUT: Duration = Duration::from_millis(100);

fn at(millis: u64) -> Instant {
    Instant::from_origin(Duration::from_millis(millis))
}

fn connected_queue() -> SendQueue {
    let mut send_queue = SendQueue::new(NODE_TIMEOUT);
    send_queue.connected();
    send_queue
}

fn lease_id(number: u32) -> LeaseId {
    LeaseId::from_wire(format!("me:{number}").as_bytes())
}

fn resources() -> Resources {
    [Resource::new("r").unwrap()].into()
}

fn lock(number: u32) -> Operation {
    Operation::Lock(Lock {
        resources: resources(),
        lease_id: lease_id(number),
        ttl: Duration::from_secs(1),
        hint: 0,
        ignores_queue: false,
        will_not_wait: false,
    })
}

fn renew(number: u32) -> Operation {
    renew_for(number, Duration::from_secs(1))
}

fn renew_for(number: u32, ttl: Duration) -> Operation {
    Operation::Renew(Renew {
        resources: resources(),
        lease_id: lease_id(number),
        holds: 1,
        ttl,
        extends: true,
        token: 1,
        may_have_waiters: false,
    })
}

fn unlock(number: u32) -> Unlock {
    Unlock {
        resources: resources(),
        lease_id: lease_id(number),
        notify: false,
        tombstone: Tombstone::Never,
        has_waiters: false,
        rest: None,
    }
}

fn inspect() -> Operation {
    Operation::Inspect(Inspect { resource: Resource::new("r").unwrap(), max_readers: 0, max_details: 0 })
}

fn request(operation: Operation) -> Request {
    Request::one(operation, at(1000))
}

fn unlock_request(number: u32) -> Request {
    request(Operation::Unlock(unlock(number)))
}

fn granted(count: usize) -> Vec<Answer> {
    vec![Answer::Granted { vote: 1 }; count]
}

fn answer_of(reply: &mut Reply) -> Option<Answer> {
    reply.now_or_never().map(|answers| answers[0].clone())
}

fn error(reply: &mut Reply) -> Option<NodeError> {
    answer_of(reply).map(|answer| match answer {
        Answer::Error(error) => error,
        other => panic!("{other:?} is no error"),
    })
}

fn reset() -> NodeError {
    NodeError::Unreachable("reset".into())
}

#[test]
fn the_first_request_is_sent_at_once_and_waiting_requests_together() {
    let mut send_queue = connected_queue();
    let mut first = send_queue.submit(request(lock(1)));
    let (id, operations) = send_queue.next_batch(at(0)).unwrap();
    assert_eq!(&*operations, [lock(1)]);
    assert!(send_queue.next_batch(at(0)).is_none());
    let mut second = send_queue.submit(request(lock(2)));
    let mut third = send_queue.submit(request(lock(3)));
    let (next, operations) = send_queue.next_batch(at(1)).unwrap();
    assert_eq!(&*operations, [lock(2), lock(3)]);
    send_queue.answered(id, granted(1), at(0));
    send_queue.answered(next, vec![Answer::Granted { vote: 2 }, Answer::WrittenBack], at(0));
    assert_eq!(answer_of(&mut first), Some(Answer::Granted { vote: 1 }));
    assert_eq!(answer_of(&mut second), Some(Answer::Granted { vote: 2 }));
    assert_eq!(answer_of(&mut third), Some(Answer::WrittenBack));
}

#[test]
fn the_size_of_a_batch_and_the_calls_in_flight_are_limited() {
    let mut send_queue = connected_queue();
    let _replies: Vec<_> = (0..600).map(|number| send_queue.submit(request(lock(number)))).collect();
    for _ in 0..MAX_CALLS_IN_FLIGHT {
        assert_eq!(send_queue.next_batch(at(0)).unwrap().1.len(), MAX_OPERATIONS);
    }
    assert!(send_queue.next_batch(at(0)).is_none());
    assert!(!send_queue.needs_service(), "the next answer wakes the driver");
}

#[test]
fn the_answers_to_a_batch_are_limited_except_for_those_to_one_request() {
    let mut send_queue = connected_queue();
    let observe = || Operation::Observe(Observe { resource: Resource::new("r").unwrap() });
    let mut replies: Vec<_> = (0..6).map(|_| send_queue.submit(request(observe()))).collect();
    replies.push(send_queue.submit(Request::new(vec![observe(); 8], at(1000))));
    let sizes = std::iter::from_fn(|| send_queue.next_batch(at(0))).map(|(_, operations)| operations.len());
    assert_eq!(sizes.collect::<Vec<_>>(), [4, 2, 8]);
}

#[test]
fn the_resources_of_a_batch_are_limited_except_for_one_large_group() {
    let group = |number: u32, size: usize| {
        let name = |member: usize| Resource::new(format!("{number}:{member}")).unwrap();
        let Operation::Lock(lock) = lock(number) else { panic!("no lock") };
        Operation::Lock(Lock { resources: (0..size).map(name).collect(), ..lock })
    };
    let half = MAX_RESOURCES / 2;
    let groups =
        [(1, half), (2, half), (3, half), (4, half + 1), (5, 1), (6, MAX_GROUP_SIZE), (7, 1), (8, half)];
    let groups = groups.map(|(number, size)| group(number, size));
    let mut send_queue = connected_queue();
    let _replies = groups.clone().map(|group| send_queue.submit(request(group)));
    let mut sent = Vec::new();
    while let Some((id, operations)) = send_queue.next_batch(at(0)) {
        send_queue.answered(id, granted(operations.len()), at(0));
        sent.push(operations.to_vec());
    }
    assert_eq!(sent, [&groups[..2], &groups[2..3], &groups[3..5], &groups[5..6], &groups[6..]]);
}

#[test]
fn a_request_is_never_split_between_batches() {
    let mut send_queue = connected_queue();
    let many: Arc<[Operation]> = (0..40).map(lock).collect();
    let _first = send_queue.submit(Request::new(Arc::clone(&many), at(9)));
    let _second = send_queue.submit(Request::new(many, at(9)));
    assert_eq!(send_queue.next_batch(at(0)).unwrap().1.len(), 40);
    assert_eq!(send_queue.next_batch(at(0)).unwrap().1.len(), 40);
}

#[test]
fn requests_wait_for_the_first_connection_and_are_refused_after_a_failed_dial() {
    let mut send_queue = SendQueue::new(NODE_TIMEOUT);
    let mut waiting = send_queue.submit(request(lock(1)));
    let mut pending_unlock = send_queue.submit(unlock_request(1));
    assert!(answer_of(&mut waiting).is_none());
    send_queue.dial_failed(NodeError::NoAuth("no".into()));
    let refused = NodeError::Handshake(Arc::new(NodeError::NoAuth("no".into())));
    assert_eq!(error(&mut waiting), Some(refused.clone()));
    assert_eq!(error(&mut send_queue.submit(request(lock(2)))), Some(refused));
    assert!(send_queue.take_wanted(), "a refused request causes a dial");
    assert!(answer_of(&mut pending_unlock).is_none());
    send_queue.connected();
    assert_eq!(send_queue.next_batch(at(0)).unwrap().1.len(), 1);
}

#[test]
fn an_unresponsive_node_gets_no_calls_until_all_calls_are_answered() {
    let mut send_queue = connected_queue();
    let _unanswered = [1, 2].map(|number| send_queue.submit(request(lock(number))));
    let (first, _) = send_queue.next_batch(at(0)).unwrap();
    let _later = send_queue.submit(request(lock(3)));
    let (second, _) = send_queue.next_batch(at(50)).unwrap();
    send_queue.tick(at(99));
    let mut queued = send_queue.submit(request(lock(4)));
    assert_eq!(send_queue.next_deadline(), Some(at(100)));
    send_queue.tick(at(100));
    assert_eq!(error(&mut queued), Some(NodeError::Unresponsive));
    assert_eq!(error(&mut send_queue.submit(request(inspect()))), Some(NodeError::Unresponsive));
    let mut pending_unlock = send_queue.submit(unlock_request(1));
    send_queue.answered(first, granted(2), at(0));
    assert!(send_queue.next_batch(at(120)).is_none());
    send_queue.answered(second, granted(1), at(0));
    assert!(answer_of(&mut pending_unlock).is_none());
    assert_eq!(send_queue.next_batch(at(121)).unwrap().1.len(), 1);
    assert!(answer_of(&mut send_queue.submit(request(lock(5)))).is_none());
}

#[test]
fn an_answer_is_late_if_its_caller_no_longer_waits() {
    let mut send_queue = connected_queue();
    let _awaited = send_queue.submit(request(lock(1)));
    for operation in [lock(2), renew(3), inspect(), Operation::Unlock(unlock(4))] {
        drop(send_queue.submit(request(operation)));
    }
    let (id, operations) = send_queue.next_batch(at(0)).unwrap();
    assert_eq!(operations.len(), 5);
    assert_eq!(send_queue.answered(id, granted(5), at(1)), 2, "the lock and the renewal");
}

#[test]
fn renewals_wait_until_an_unresponsive_node_has_answered() {
    let mut send_queue = connected_queue();
    let _unanswered = send_queue.submit(request(lock(1)));
    let (id, _) = send_queue.next_batch(at(0)).unwrap();
    let mut before = send_queue.submit(request(renew(2)));
    send_queue.tick(at(100));
    let mut after = send_queue.submit(request(renew(3)));
    assert_eq!((error(&mut before), error(&mut after)), (None, None));
    assert_eq!(error(&mut send_queue.submit(request(lock(4)))), Some(NodeError::Unresponsive));
    assert!(send_queue.next_batch(at(500)).is_none(), "a call is unanswered");
    {
        let _broken = break_rule(Some(Mutation::ImpatientRenewals));
        assert_eq!(error(&mut send_queue.submit(request(renew(5)))), Some(NodeError::Unresponsive));
    }
    send_queue.answered(id, granted(1), at(900));
    assert_eq!(send_queue.next_batch(at(900)).unwrap().1.len(), 2);
}

#[test]
fn a_renewal_that_waits_for_an_unresponsive_node_ends_at_its_deadline() {
    let mut send_queue = connected_queue();
    let _unanswered = send_queue.submit(request(lock(1)));
    send_queue.next_batch(at(0)).unwrap();
    send_queue.tick(at(100));
    let mut expired = send_queue.submit(request(renew(2)));
    send_queue.tick(at(1000));
    assert_eq!(error(&mut expired), Some(NodeError::Unresponsive));
    let mut refused = send_queue.submit(Request::one(renew(3), at(9000)));
    send_queue.disconnected(reset(), at(3000));
    assert!(error(&mut refused).is_some_and(|error| error.is_unsent()));
}

#[test]
fn a_request_that_expires_behind_unanswered_calls_fails_with_this_reason() {
    let mut send_queue = connected_queue();
    let _replies: Vec<_> = (0..MAX_CALLS_IN_FLIGHT)
        .map(|_| {
            let reply = send_queue.submit(request(inspect()));
            assert!(send_queue.next_batch(at(0)).is_some());
            reply
        })
        .collect();
    let mut behind = send_queue.submit(Request::one(inspect(), at(50)));
    assert!(send_queue.next_batch(at(0)).is_none());
    send_queue.tick(at(50));
    assert_eq!(error(&mut behind), Some(NodeError::Unresponsive));
    assert_eq!(NodeError::Unresponsive.to_string(), "not asked: no answer to earlier calls in time");
}

#[test]
fn the_oldest_call_is_the_first_call_without_an_answer() {
    let mut send_queue = connected_queue();
    assert_eq!(send_queue.oldest_call(), None);
    let calls = [10, 20].map(|sent| {
        let reply = send_queue.submit(request(inspect()));
        let (id, _) = send_queue.next_batch(at(sent)).unwrap();
        (reply, id)
    });
    for (position, oldest) in [(0, Some(at(20))), (1, None)] {
        send_queue.answered(calls[position].1, granted(1), at(30));
        assert_eq!(send_queue.oldest_call(), oldest);
    }
}

#[test]
fn an_overloaded_node_accepts_only_unlocks() {
    let mut send_queue = connected_queue();
    let _replies: Vec<_> =
        (0..).take(MAX_PENDING_OPERATIONS).map(|number| send_queue.submit(request(lock(number)))).collect();
    assert_eq!(error(&mut send_queue.submit(request(lock(9999)))), Some(NodeError::Overloaded));
    assert!(answer_of(&mut send_queue.submit(unlock_request(9999))).is_none());
    let (id, operations) = send_queue.next_batch(at(0)).unwrap();
    send_queue.answered(id, granted(operations.len()), at(0));
    assert!(answer_of(&mut send_queue.submit(request(lock(9999)))).is_none());
}

#[test]
fn unlocks_of_a_broken_connection_are_sent_first_on_the_next_connection() {
    let mut send_queue = connected_queue();
    let mut sent = send_queue.submit(request(lock(1)));
    let mut sent_unlock = send_queue.submit(unlock_request(2));
    send_queue.next_batch(at(0)).unwrap();
    let mut unsent = send_queue.submit(request(lock(3)));
    let mut unsent_unlock = send_queue.submit(unlock_request(1));
    send_queue.disconnected(reset(), at(1));
    assert_eq!(error(&mut sent), Some(NodeError::Disconnected));
    assert_eq!(error(&mut unsent), Some(reset()));
    let mut later = send_queue.submit(request(lock(4)));
    send_queue.connected();
    let (_, operations) = send_queue.next_batch(at(2)).unwrap();
    assert_eq!(&*operations, [Operation::Unlock(unlock(2)), Operation::Unlock(unlock(1)), lock(4)]);
    for reply in [&mut sent_unlock, &mut unsent_unlock, &mut later] {
        assert!(answer_of(reply).is_none());
    }
}

#[test]
fn the_error_of_an_expired_request_shows_whether_it_was_sent() {
    let mut send_queue = connected_queue();
    let mut sent = send_queue.submit(Request::one(Operation::Unlock(unlock(1)), at(50)));
    send_queue.next_batch(at(0)).unwrap();
    send_queue.disconnected(reset(), at(1));
    let mut unsent = send_queue.submit(Request::one(lock(2), at(40)));
    assert_eq!(send_queue.next_deadline(), Some(at(40)));
    send_queue.tick(at(40));
    assert!(error(&mut unsent).unwrap().is_unsent());
    assert_eq!(send_queue.next_deadline(), Some(at(50)));
    send_queue.tick(at(50));
    assert_eq!(error(&mut sent), Some(NodeError::Disconnected));
    assert_eq!(send_queue.next_deadline(), None);
}

#[test]
fn a_lost_script_is_loaded_once_and_requests_are_resent_in_order() {
    let mut send_queue = connected_queue();
    let _first = send_queue.submit(request(lock(1)));
    let (first, _) = send_queue.next_batch(at(0)).unwrap();
    let _second = send_queue.submit(request(lock(2)));
    let (second, _) = send_queue.next_batch(at(0)).unwrap();
    let _third = send_queue.submit(request(lock(3)));
    assert!(send_queue.not_loaded(first, at(1)));
    assert!(!send_queue.not_loaded(second, at(1)));
    assert!(send_queue.next_batch(at(1)).is_none());
    send_queue.loaded();
    assert_eq!(&*send_queue.next_batch(at(2)).unwrap().1, [lock(1), lock(2), lock(3)]);
}

#[test]
fn locks_that_were_unlocked_or_dropped_are_not_resent_after_a_lost_script() {
    let mut send_queue = connected_queue();
    let mut unlocked = send_queue.submit(request(lock(1)));
    let dropped = send_queue.submit(request(lock(2)));
    let (locks, _) = send_queue.next_batch(at(0)).unwrap();
    let mut pending_unlock = send_queue.submit(unlock_request(1));
    let (unlock_batch, _) = send_queue.next_batch(at(0)).unwrap();
    drop(dropped);
    send_queue.not_loaded(locks, at(1));
    assert!(error(&mut unlocked).unwrap().is_unsent());
    send_queue.answered(unlock_batch, vec![Answer::Unlocked { deleted: 0 }], at(0));
    send_queue.loaded();
    assert!(send_queue.next_batch(at(2)).is_none());
    assert!(answer_of(&mut pending_unlock).is_some());
}

#[test]
fn a_connection_is_silent_after_3_s_and_its_node_is_then_unresponsive() {
    let mut send_queue = connected_queue();
    let _reply = send_queue.submit(request(lock(1)));
    send_queue.next_batch(at(0)).unwrap();
    send_queue.tick(at(100));
    assert_eq!(send_queue.next_deadline(), Some(at(3000)));
    assert!(!send_queue.is_silent(at(2999)) && send_queue.is_silent(at(3000)));
    send_queue.disconnected(reset(), at(3000));
    assert_eq!(error(&mut send_queue.submit(request(lock(2)))), Some(NodeError::Unresponsive));
}

#[test]
fn silent_connections_in_a_row_are_counted_until_an_answer_in_time() {
    let mut send_queue = connected_queue();
    let end = |send_queue: &mut SendQueue, after| {
        let _reply = send_queue.submit(request(lock(1)));
        send_queue.next_batch(at(0)).unwrap();
        send_queue.tick(at(100));
        let silences = send_queue.disconnected(reset(), at(after));
        send_queue.connected();
        silences
    };
    let answer = |send_queue: &mut SendQueue, after| {
        let _reply = send_queue.submit(request(lock(1)));
        let (id, _) = send_queue.next_batch(at(0)).unwrap();
        send_queue.answered(id, granted(1), at(after));
        send_queue.disconnected(reset(), at(after));
        send_queue.connected();
    };
    assert_eq!([3000, 3000, 2999, 3000].map(|after| end(&mut send_queue, after)), [1, 2, 0, 3]);
    answer(&mut send_queue, 100);
    assert_eq!(end(&mut send_queue, 3000), 4, "the answer was late");
    answer(&mut send_queue, 99);
    assert_eq!(end(&mut send_queue, 3000), 1);
}

#[test]
fn a_node_gets_few_requests_after_a_silence_until_an_answer_in_time() {
    let mut send_queue = connected_queue();
    let unlock = |number| Request::one(Operation::Unlock(unlock(number)), at(60_000));
    let _unlocks: Vec<_> = (0..40).map(|number| send_queue.submit(unlock(number))).collect();
    let sent = |send_queue: &mut SendQueue, now| -> Vec<(BatchId, usize)> {
        let batches = std::iter::from_fn(|| send_queue.next_batch(at(now)));
        batches.map(|(id, operations)| (id, operations.len())).collect()
    };
    let sizes = |batches: &[(BatchId, usize)]| batches.iter().map(|(_, size)| *size).collect::<Vec<_>>();
    assert_eq!(sizes(&sent(&mut send_queue, 0)), [40]);
    send_queue.tick(at(100));
    send_queue.disconnected(reset(), at(3000));
    send_queue.connected();
    let first = sent(&mut send_queue, 3000);
    assert_eq!(sizes(&first), [16]);
    send_queue.answered(first[0].0, vec![Answer::Unlocked { deleted: 0 }; 16], at(3100));
    let _later: Vec<_> = (40..120).map(|number| send_queue.submit(unlock(number))).collect();
    let second = sent(&mut send_queue, 3100);
    assert_eq!(sizes(&second), [32], "the first answer was late");
    send_queue.answered(second[0].0, vec![Answer::Unlocked { deleted: 0 }; 32], at(3101));
    assert_eq!(sizes(&sent(&mut send_queue, 3101)), [64, 8]);
}

/// A busy node may answer a renewal until its deadline. Without a bound, a lost connection would stay until the end of
/// the renewal timeout of a long lease.
#[test]
fn a_renewal_in_flight_keeps_the_connection_until_its_deadline_but_at_most_twice_as_long() {
    let silent_at = |operation, until| {
        let mut send_queue = connected_queue();
        let reply = send_queue.submit(Request::one(operation, at(until)));
        send_queue.next_batch(at(0)).unwrap();
        send_queue.tick(at(100));
        let silent_at = send_queue.next_deadline().unwrap();
        assert!(!send_queue.is_silent(at(2999)) && send_queue.is_silent(silent_at));
        drop(reply);
        assert!(send_queue.is_silent(at(3000)), "no caller waits for the answer");
        silent_at
    };
    let renew = |ttl| renew_for(1, Duration::from_secs(ttl));
    assert_eq!(silent_at(renew(4), 1000), at(3000));
    assert_eq!(silent_at(renew(20), 5000), at(5000));
    assert_eq!(silent_at(renew(240), 60_000), at(6000));
    assert_eq!(silent_at(lock(1), 5000), at(3000));
    let _broken = break_rule(Some(Mutation::GiveUpRenewals));
    assert_eq!(silent_at(renew(20), 5000), at(3000));
}

/// A short lease must stay valid until a new connection can carry its renewal, also if the node has not been sent the
/// renewal, or the caller has already given up the renewal.
#[test]
fn a_renewal_keeps_the_connection_for_at_most_a_third_of_the_shortest_ttl() {
    let silent_at = |short_ttl: u64, sent_at: u64| {
        let mut send_queue = connected_queue();
        let _long = send_queue.submit(Request::one(renew_for(1, Duration::from_secs(60)), at(15_000)));
        send_queue.next_batch(at(0)).unwrap();
        if sent_at > 100 {
            send_queue.tick(at(100));
        }
        let ttl = Duration::from_secs(short_ttl);
        let short = send_queue.submit(Request::one(renew_for(2, ttl), at(sent_at) + ttl / 4));
        assert_eq!(send_queue.next_batch(at(sent_at)).is_some(), sent_at < 100);
        send_queue.tick(at(sent_at + 100));
        drop(short);
        send_queue.in_flight.deadline(send_queue.unsent.shortest_ttl()).unwrap()
    };
    for sent_at in [50, 150] {
        assert_eq!(silent_at(60, sent_at), at(6000));
        assert_eq!(silent_at(15, sent_at), at(5000));
        assert_eq!(silent_at(6, sent_at), at(3000));
    }
    let _broken = break_rule(Some(Mutation::WaitForLongLeases));
    assert_eq!(silent_at(6, 150), at(6000));
}

/// A renewal that extends no lease reports the number of holds, with the rest of the validity as its ttl. A new connection would only make
/// the renewal of the long lease last in line again.
#[test]
fn a_renewal_that_extends_no_lease_does_not_shorten_a_silence() {
    let silent_at = |number, extends| {
        let Operation::Renew(renew) = renew_for(number, Duration::from_secs(2)) else { unreachable!() };
        let short = Operation::Renew(Renew { extends, ..renew });
        let mut send_queue = connected_queue();
        let _long = send_queue.submit(Request::one(renew_for(1, Duration::from_secs(60)), at(15_000)));
        let _short = send_queue.submit(Request::one(short, at(1000)));
        send_queue.next_batch(at(0)).unwrap();
        send_queue.tick(at(100));
        send_queue.next_deadline().unwrap()
    };
    assert_eq!(silent_at(2, false), at(6000));
    assert_eq!(silent_at(2, true), at(3000));
}

#[test]
fn a_closed_queue_accepts_only_unlocks_until_all_are_answered_or_expired() {
    let mut send_queue = connected_queue();
    assert!(!send_queue.is_done(at(0)));
    let mut sent = send_queue.submit(request(lock(1)));
    let (id, _) = send_queue.next_batch(at(0)).unwrap();
    send_queue.close();
    assert_eq!(
        error(&mut send_queue.submit(request(lock(2)))),
        Some(NodeError::Closed(ClosedReason::ShutDown))
    );
    let mut pending_unlock = send_queue.submit(unlock_request(1));
    send_queue.answered(id, granted(1), at(0));
    assert!(answer_of(&mut sent).is_some() && !send_queue.is_done(at(1)));
    let (id, _) = send_queue.next_batch(at(1)).unwrap();
    assert!(!send_queue.is_done(at(999)) && send_queue.is_done(at(1000)));
    send_queue.answered(id, vec![Answer::Unlocked { deleted: 1 }], at(0));
    assert!(answer_of(&mut pending_unlock).is_some() && send_queue.is_done(at(2)));
    send_queue.end();
    assert_eq!(
        error(&mut send_queue.submit(unlock_request(3))),
        Some(NodeError::Closed(ClosedReason::ShutDown))
    );
}

#[test]
fn a_closed_queue_with_an_expired_lock_has_no_past_deadline() {
    let mut send_queue = connected_queue();
    let _lock = send_queue.submit(Request::one(lock(1), at(50)));
    assert!(send_queue.next_batch(at(0)).is_some());
    let _unlock = send_queue.submit(unlock_request(1));
    send_queue.close();
    for now in [60, 150, 900] {
        send_queue.tick(at(now));
        assert!(!send_queue.is_done(at(now)));
        assert!(
            send_queue.next_deadline() > Some(at(now)),
            "a deadline in the past at {now} ms: {:?}",
            send_queue.next_deadline()
        );
    }
    assert!(send_queue.is_done(at(1000)));
}

#[test]
fn a_wrong_number_of_answers_is_a_protocol_error() {
    let mut send_queue = connected_queue();
    let mut replies = [1, 2].map(|number| send_queue.submit(request(lock(number))));
    let (id, _) = send_queue.next_batch(at(0)).unwrap();
    send_queue.answered(id, granted(3), at(0));
    for reply in &mut replies {
        assert!(matches!(error(reply), Some(NodeError::Protocol(_))));
    }
}

#[test]
fn unlocks_and_withdrawals_are_retried_after_temporary_errors_only() {
    let temporary = [
        NodeError::Busy,
        NodeError::Loading,
        NodeError::ReadOnly,
        NodeError::CannotPersist,
        NodeError::OutOfMemory,
        NodeError::Server("NOREPLICAS Not enough good replicas to write.".into()),
        NodeError::Protocol("no answer at all".into()),
    ];
    let lasting = [
        NodeError::WrongType,
        NodeError::NoPermission("no".into()),
        NodeError::NoAuth("no".into()),
        NodeError::InvalidCounter("-1".into()),
    ];
    let withdraw = Withdraw { resource: Resource::new("r").unwrap(), waiter: lease_id(1) };
    for operation in [Operation::Unlock(unlock(1)), Operation::Withdraw(withdraw)] {
        for (given, is_retried) in
            temporary.iter().map(|given| (given, true)).chain(lasting.iter().map(|given| (given, false)))
        {
            let mut send_queue = connected_queue();
            let mut reply = send_queue.submit(request(operation.clone()));
            let (id, _) = send_queue.next_batch(at(0)).unwrap();
            send_queue.answered(id, vec![Answer::Error(given.clone())], at(0));
            assert_eq!(error(&mut reply).as_ref(), Some(given), "the caller gets the first error at once");
            assert!(send_queue.next_batch(at(249)).is_none());
            assert_eq!(send_queue.next_deadline(), is_retried.then(|| at(250)), "{given}");
            assert_eq!(send_queue.undelivered_count(), usize::from(is_retried), "{given}");
            let again = send_queue.next_batch(at(250));
            assert_eq!(
                again.as_ref().map(|(_, operations)| &**operations),
                is_retried.then_some(std::slice::from_ref(&operation))
            );
            let Some((id, _)) = again else { continue };
            send_queue.answered(id, vec![Answer::Unlocked { deleted: 1 }], at(250));
            assert_eq!((send_queue.undelivered_count(), send_queue.next_deadline()), (0, None));
        }
    }
}

#[test]
fn retry_delays_double_up_to_two_seconds_until_the_request_expires() {
    let mut send_queue = connected_queue();
    let _reply = send_queue.submit(Request { until: at(10_000), ..unlock_request(1) });
    let (mut now, mut sent) = (0, Vec::new());
    while let Some((id, _)) = send_queue.next_batch(at(now)) {
        sent.push(now);
        send_queue.answered(id, vec![Answer::Error(NodeError::Server("NOREPLICAS".into()))], at(now));
        let Some(next) = send_queue.next_deadline() else { break };
        now = u64::try_from(next.since_origin().as_millis()).unwrap();
    }
    assert_eq!(sent, [0, 250, 750, 1750, 3750, 5750, 7750, 9750]);
    assert_eq!(send_queue.undelivered_count(), 0);
}

#[test]
fn an_unlock_is_retried_after_a_wrong_number_of_answers() {
    let mut send_queue = connected_queue();
    let mut reply = send_queue.submit(unlock_request(1));
    let (id, _) = send_queue.next_batch(at(0)).unwrap();
    send_queue.answered(id, Vec::new(), at(0));
    assert!(matches!(error(&mut reply), Some(NodeError::Protocol(_))));
    assert_eq!(send_queue.next_batch(at(250)).unwrap().1.len(), 1);
}

#[test]
fn a_resent_unlock_that_deletes_nothing_is_answered_as_unlocked_before() {
    let mut send_queue = connected_queue();
    let mut reply = send_queue.submit(Request { until: at(1000), ..unlock_request(1) });
    send_queue.next_batch(at(0)).unwrap();
    send_queue.disconnected(NodeError::Disconnected, at(1));
    send_queue.connected();
    let (id, _) = send_queue.next_batch(at(2)).unwrap();
    send_queue.answered(id, vec![Answer::Unlocked { deleted: 0 }], at(3));
    assert_eq!(answer_of(&mut reply), Some(Answer::UnlockedBefore));
}

#[test]
fn unlocks_are_not_delivered_to_a_node_that_was_never_connected() {
    let mut send_queue = SendQueue::new(NODE_TIMEOUT);
    let _lock = send_queue.submit(request(lock(1)));
    let _unlock = send_queue.submit(unlock_request(1).blocks_until(at(300)));
    assert_eq!(send_queue.undelivered(at(0)).count(), 0);
    send_queue.close();
    assert!(send_queue.is_done(at(0)), "a node that was never connected has no key of this client");
    send_queue.connected();
    assert_eq!(send_queue.undelivered(at(0)).count(), 1);
    assert!(!send_queue.is_done(at(0)));
}

#[test]
fn a_closed_queue_still_delivers_unlocks_of_keys_of_other_clients() {
    let mut send_queue = SendQueue::new(NODE_TIMEOUT);
    let _forced = send_queue.submit(request(Operation::ForceUnlock(ForceUnlock { resources: resources() })));
    send_queue.close();
    assert!(!send_queue.is_done(at(0)));
    assert!(send_queue.is_done(at(1000)));
    let _of_other_client = send_queue.submit(Request { until: at(2000), ..unlock_request(1) });
    assert!(!send_queue.is_done(at(1000)), "the key of another client must be unlocked");
    assert_eq!(send_queue.undelivered(at(1000)).count(), 1);
}

#[test]
fn undelivered_requests_are_reported_until_confirmed_or_expired() {
    let mut send_queue = connected_queue();
    let undelivered = |send_queue: &SendQueue, now| -> Vec<Option<Instant>> {
        send_queue.undelivered(at(now)).map(|request| request.blocks_until).collect()
    };
    let _lock = send_queue.submit(request(lock(1)));
    let _first = send_queue.submit(unlock_request(1).blocks_until(at(400)));
    let _second = send_queue.submit(unlock_request(2));
    assert_eq!(undelivered(&send_queue, 0), [Some(at(400)), None], "the unlocks are queued");
    let (id, _) = send_queue.next_batch(at(0)).unwrap();
    assert_eq!(undelivered(&send_queue, 0), [Some(at(400)), None], "the unlocks are in flight");
    let deleted = Answer::Unlocked { deleted: 1 };
    send_queue.answered(
        id,
        vec![Answer::Granted { vote: 1 }, Answer::Error(NodeError::Busy), deleted],
        at(1),
    );
    assert_eq!(undelivered(&send_queue, 1), [Some(at(400))], "the first unlock got a temporary error");
    assert_eq!(undelivered(&send_queue, 1000), []);
    let first = send_queue.undelivered(at(1)).next().unwrap();
    assert_eq!(first.resources, resources());
}
