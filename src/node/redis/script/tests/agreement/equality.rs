//! Equality of the data and of the answers of two nodes, with a tolerance for times.

use super::*;

pub(super) type Contents = BTreeMap<Vec<u8>, (Vec<Vec<u8>>, Duration)>;

/// Returns the keys, with values and ttls, that a server in this state has.
pub(super) fn contents(state: &NodeState, now: NodeTime) -> Contents {
    let mut contents = Contents::new();
    for name in RESOURCES.map(resource) {
        if let Some(HeldKey { lease_id, holds, expires_at }) = state.held(&name, now) {
            let readers = state.remembered_readers(&name, now);
            let held_as = match readers.filter(|_| lease_id.is_of_readers()) {
                Some(readers) => Some(format!("{}:{}", readers.phase, readers.epoch)),
                None => Some(holds.to_string()).filter(|_| !lease_id.is_of_readers()),
            };
            let value = [lease_id.as_bytes().to_vec()].into_iter().chain(held_as.map(String::into_bytes));
            contents.insert(name.as_bytes().to_vec(), (value.collect(), expires_at.remaining(now)));
        }
        if let Some(readers) = state.remembered_readers(&name, now) {
            let lease_ids = readers.ends.keys().map(|lease_id| lease_id.as_bytes().to_vec()).collect();
            contents.insert(names::readers(&name), (lease_ids, readers.expires_at.remaining(now)));
        }
        if let Some(Counter { value, expires_at }) = state.counter(&name, now) {
            let value = vec![value.to_string().into_bytes()];
            contents.insert(names::counter(&name), (value, expires_at.remaining(now)));
        }
        if let Some(LeaderRecord { proclamation, expires_at }) = state.leader(&name, now) {
            let value = fields_of(proclamation);
            contents.insert(names::leader(&name).as_bytes().to_vec(), (value, expires_at.remaining(now)));
        }
        if let Some(record) = state.latch_record(&name, now) {
            let arrivals = record.arrivals.iter().map(|arrival| ([b":", &arrival[..]].concat(), Vec::new()));
            let count = (b"count".to_vec(), record.count.to_string().into_bytes());
            let open = record.is_open.then(|| (b"open".to_vec(), b"1".to_vec()));
            let fields: BTreeMap<_, _> = arrivals.chain([count]).chain(open).collect();
            let value = fields.into_iter().flat_map(|(field, value)| [field, value]);
            let key = names::latch(&name).as_bytes().to_vec();
            contents.insert(key, (value.collect(), record.expires_at.remaining(now)));
        }
        if let Some(PermitCount { permits, expires_at }) = state.permit_count(&name, now) {
            let value = vec![permits.to_string().into_bytes()];
            contents.insert(names::permits(&name), (value, expires_at.remaining(now)));
        }
        if let Some(queue) = state.wait_queue(&name, now) {
            let waiters: Vec<_> =
                queue.entries().iter().map(|entry| entry.waiter.as_bytes().to_vec()).collect();
            let mut sorted = waiters.clone();
            sorted.sort();
            contents.insert(names::queue(&name), (waiters, queue.expires_at().remaining(now)));
            contents.insert(names::entry_ttls(&name), (sorted, queue.expires_at().remaining(now)));
            if let Some((waiter, at)) = queue.woken() {
                let at = at.since_epoch().as_millis().to_string().into_bytes();
                let value = vec![at, waiter.as_bytes().to_vec()];
                contents.insert(names::last_woken(&name), (value, queue.expires_at().remaining(now)));
            }
        }
        if let Some(until) = state.yield_mark(&name, now) {
            contents.insert(names::yield_mark(&name), (vec![b"1".to_vec()], until.remaining(now)));
        }
        if let Some(until) = state.writer_mark(&name, now) {
            contents.insert(names::writer_mark(&name), (vec![b"1".to_vec()], until.remaining(now)));
        }
        for lease_id in LEASE_IDS.map(lease_id) {
            if let Some(expires_at) = state.tombstone(&name, &lease_id, now) {
                contents.insert(
                    names::tombstone(&name, &lease_id),
                    (vec![b"1".to_vec()], expires_at.remaining(now)),
                );
            }
        }
    }
    if let Some(Quarantine { until, renewals_from }) = state.quarantine(now) {
        let value = vec![renewals_from.since_epoch().as_millis().to_string().into_bytes()];
        contents.insert(names::QUARANTINE.into(), (value, until.remaining(now)));
    }
    contents
}

/// Returns the fields and values of a proclamation's key, sorted by field.
fn fields_of(proclamation: &Proclamation) -> Vec<Vec<u8>> {
    let text = |number: u64| number.to_string().into_bytes();
    let since = proclamation.since.as_millis().to_string().into_bytes();
    let fields = [
        ("number", text(proclamation.number)),
        ("owner", proclamation.lease_id.as_bytes().to_vec()),
        ("since", since),
        ("term", text(proclamation.term)),
        ("value", proclamation.value.to_vec()),
    ];
    fields.into_iter().flat_map(|(field, value)| [field.into(), value]).collect()
}

pub(super) fn is_near(one: Duration, other: Duration) -> bool {
    one.abs_diff(other) <= Duration::from_millis(TOLERANCE)
}

/// Whether two answers are equal, with the tolerance for times.
pub(super) fn is_same_answer(
    operation: &Operation,
    expected: &Answer,
    actual: &Answer,
    state: &NodeState,
    now: NodeTime,
) -> bool {
    let is_same_held = |one: &Holder, other: &Holder| {
        let is_same_key = one.resource == other.resource && one.lease_id == other.lease_id;
        (is_same_key || is_tied_holder(operation, other, state, now))
            && one.counter == other.counter
            && is_near(one.remaining, other.remaining)
    };
    match (expected, actual) {
        (Answer::WithWaiters(one), Answer::WithWaiters(other)) => {
            is_same_answer(operation, one, other, state, now)
        }
        (Answer::Held(one), Answer::Held(other)) => is_same_held(one, other),
        (Answer::Queued(one), Answer::Queued(other)) => {
            let is_same_holder = match (&one.holder, &other.holder) {
                (Some(one), Some(other)) => is_same_held(one, other),
                (one, other) => one.is_none() && other.is_none(),
            };
            // A deferral names the resource of the holder whose lease lasts longest. If several
            // holders tie, the two nodes may name different resources.
            let is_of_holder =
                |of: &Queued| of.holder.as_ref().is_some_and(|holder| holder.resource == of.resource);
            let is_same_resource = one.resource == other.resource
                || (matches!(operation, Operation::Enqueue(_)) && is_of_holder(one) && is_of_holder(other));
            is_same_resource
                && one.rank == other.rank
                && is_same_holder
                && is_same_arrival(one, other)
                && is_near(one.patience, other.patience)
        }
        (Answer::Inspected(one), Answer::Inspected(other)) => {
            one.counter == other.counter
                && one.fingerprint == other.fingerprint
                && one.incarnation == other.incarnation
                && is_same_abstention(one.abstention, other.abstention)
                && is_same_holder(one, other)
                && are_same_readers(one, other)
                && are_same_details(one.details.as_deref(), other.details.as_deref())
        }
        (Answer::Listed(one), Answer::Listed(other)) => {
            let sorted = |of: &ListPage| of.resources.iter().cloned().collect::<BTreeSet<_>>();
            one.cursor == other.cursor && sorted(one) == sorted(other)
        }
        (Answer::Observed(one), Answer::Observed(other)) => {
            let timeless = |of: &ObserveAnswer| ObserveAnswer { remaining: None, ..of.clone() };
            timeless(one) == timeless(other)
                && one.remaining.is_some() == other.remaining.is_some()
                && is_near(one.remaining.unwrap_or_default(), other.remaining.unwrap_or_default())
        }
        (
            Answer::Abstains(Abstention::Quarantined(one)),
            Answer::Abstains(Abstention::Quarantined(other)),
        )
        | (
            Answer::RenewedInQuarantine(Abstention::Quarantined(one)),
            Answer::RenewedInQuarantine(Abstention::Quarantined(other)),
        ) => is_near(*one, *other),
        (Answer::Registered(one), Answer::Registered(other)) => {
            one.incarnation == other.incarnation
                && is_near(one.quarantine.unwrap_or_default(), other.quarantine.unwrap_or_default())
                && one.quarantine.is_some() == other.quarantine.is_some()
        }
        (
            Answer::Error(NodeError::ClockOff { gap: one, is_node_ahead: is_one_ahead }),
            Answer::Error(NodeError::ClockOff { gap: other, is_node_ahead: is_other_ahead }),
        ) => is_near(*one, *other) && is_one_ahead == is_other_ahead,
        (one, other) => one == other,
    }
}

fn are_same_details(one: Option<&InspectDetails>, other: Option<&InspectDetails>) -> bool {
    let left = |details: &InspectDetails| details.latch.as_ref().map(|latch| latch.remaining);
    let timeless = |details: &InspectDetails| {
        let latch = details.latch.clone().map(|latch| LatchInfo { remaining: Duration::ZERO, ..latch });
        InspectDetails { latch, ..details.clone() }
    };
    one.map(timeless) == other.map(timeless)
        && is_near(one.and_then(left).unwrap_or_default(), other.and_then(left).unwrap_or_default())
}

fn is_same_arrival(one: &Queued, other: &Queued) -> bool {
    (one.arrival == 0) == (other.arrival == 0)
        && is_near(Duration::from_micros(one.arrival), Duration::from_micros(other.arrival))
}

/// Whether the holder that the server names also exists in the state, with about the same ttl. The
/// ttls that one run of the script sets may begin a millisecond apart, so holders with equal ttls
/// may be in a different order.
fn is_tied_holder(operation: &Operation, holder: &Holder, state: &NodeState, now: NodeTime) -> bool {
    let (Operation::Lock(Lock { resources, .. })
    | Operation::Enqueue(Enqueue { lock: Lock { resources, .. }, .. })
    | Operation::Transfer(Transfer { lock: Lock { resources, .. }, .. })
    | Operation::Renew(Renew { resources, .. })) = operation
    else {
        return false;
    };
    state.held(&resources[holder.resource], now).is_some_and(|held| {
        Some(&held.lease_id) == holder.lease_id.as_ref()
            && is_near(held.expires_at.remaining(now), holder.remaining)
    })
}

fn is_same_abstention(one: Option<Abstention>, other: Option<Abstention>) -> bool {
    match (one, other) {
        (Some(Abstention::Quarantined(one)), Some(Abstention::Quarantined(other))) => is_near(one, other),
        (one, other) => one == other,
    }
}

/// Whether the same readers remain for about the same times, in any order.
fn are_same_readers(one: &InspectAnswer, other: &InspectAnswer) -> bool {
    let left = |of: &InspectAnswer| of.readers.iter().cloned().collect::<BTreeMap<_, _>>();
    let (one, other) = (left(one), left(other));
    one.keys().eq(other.keys()) && one.values().zip(other.values()).all(|(one, other)| is_near(*one, *other))
}

fn is_same_holder(one: &InspectAnswer, other: &InspectAnswer) -> bool {
    let timeless = |held: &HolderInfo| HolderInfo { remaining: None, ..held.clone() };
    let remaining = |of: &InspectAnswer| of.held.as_ref().and_then(|held| held.remaining).unwrap_or_default();
    one.held.as_ref().map(timeless) == other.held.as_ref().map(timeless)
        && is_near(remaining(one), remaining(other))
}
