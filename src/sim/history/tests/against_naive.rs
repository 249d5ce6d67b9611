//! A comparison of the linear checks of a history with a check of all pairs of leases, on random
//! histories.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Violations, each as the resource, the later attempt, and the kind of violation.
type Findings = BTreeSet<(Resource, AttemptId, &'static str)>;

/// A lease of a random history.
struct Lease {
    attempt: AttemptId,
    resources: Vec<Resource>,
    shared: Vec<Resource>,
    token: u64,
    /// The number of the entry that begins the attempt.
    began: usize,
    /// The number and the time in milliseconds of the entry that grants the lease. Both are the largest
    /// number without a grant.
    granted: (usize, u64),
    /// The end of the lease in milliseconds; the largest number without an end.
    ended: u64,
}

/// Returns a strategy for moves. A move has the number of an attempt, the milliseconds before the
/// move, and the token if the move grants the attempt.
fn moves() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    prop::collection::vec((0_u64..8, 0_u64..3, 1_u64..12), 0..40)
}

/// Returns the history of these moves and its leases. The first move of an attempt begins the attempt,
/// the second move grants it, and the third move ends the lease. Each further move adds an entry that
/// concerns no lease. `resources` has two bit sets for each attempt: its resources, and the resources
/// that the attempt only reads.
fn history_of(moves: &[(u64, u64, u64)], resources: &[(u8, u8)]) -> (History, Vec<Lease>) {
    let mut builder = HistoryBuilder::new();
    let mut leases: Vec<Lease> = Vec::new();
    for (entry, &(number, later, value)) in moves.iter().enumerate() {
        builder.at += Duration::from_millis(later);
        let (attempt, now) = (AttemptId::new(number), builder.now());
        let selected = |bits: u8| {
            let names = ["a", "b", "c"].iter().enumerate().filter(move |(bit, _)| bits & (1 << bit) != 0);
            names.map(|(_, name)| resource(name)).collect::<Vec<_>>()
        };
        let (all, read) = resources[usize::try_from(number).unwrap()];
        let (resources, shared) = (selected(all), selected(all & read));
        let event = match leases.iter_mut().find(|lease| lease.attempt == attempt) {
            None => {
                let (granted, ended) = ((usize::MAX, u64::MAX), u64::MAX);
                leases.push(Lease {
                    attempt,
                    resources: resources.clone(),
                    shared: shared.clone(),
                    token: 0,
                    began: entry,
                    granted,
                    ended,
                });
                Event::Began { attempt, resources, shared }
            }
            Some(lease) if lease.granted.0 == usize::MAX => {
                (lease.granted, lease.token) = ((entry, now), value);
                Event::Granted { attempt, token: token(value) }
            }
            Some(lease) if lease.ended == u64::MAX => {
                lease.ended = now;
                ended(number, true)
            }
            Some(_) => Event::Stalled,
        };
        builder.at_once(0, event);
    }
    leases.retain(|lease| lease.granted.0 != usize::MAX);
    (builder.history, leases)
}

/// Returns the violations that a check of all pairs of leases finds.
fn violations_of_all_pairs(leases: &[Lease]) -> Findings {
    let mut found = Findings::new();
    for first in leases {
        for second in leases.iter().filter(|second| first.granted.0 < second.granted.0) {
            for resource in second.resources.iter().filter(|resource| first.resources.contains(resource)) {
                let mut record = |kind| found.insert((resource.clone(), second.attempt, kind));
                let do_share = [first, second].iter().all(|lease| lease.shared.contains(resource));
                if !do_share && first.granted.1.max(second.granted.1) < first.ended.min(second.ended) {
                    record("overlaps");
                }
                if !do_share && first.token == second.token {
                    record("repeats");
                }
                if first.granted.0 < second.began && first.token > second.token {
                    record("falls");
                }
            }
        }
    }
    found
}

/// Returns the violations that the linear checks find.
fn violations_by_linear_check(history: &History) -> Findings {
    let promises = Promises::NONE.with(Promise::Exclusion).with(Promise::Order);
    let violations = history.check(&promises).err().into_iter().flatten();
    let found = violations.map(|violation| match violation {
        Violation::Overlap { resource, second, .. } => (resource, second.attempt, "overlaps"),
        Violation::RepeatedToken { resource, second, .. } => (resource, second.attempt, "repeats"),
        Violation::FallingToken { resource, second, .. } => (resource, second.attempt, "falls"),
        other => panic!("{other}"),
    });
    found.collect()
}

proptest! {
    #[test]
    fn the_linear_checks_find_the_violations_of_all_pairs(
        moves in moves(),
        resources in prop::collection::vec((1_u8..8, 0_u8..8), 8),
    ) {
        let (history, leases) = history_of(&moves, &resources);
        prop_assert_eq!(violations_by_linear_check(&history), violations_of_all_pairs(&leases));
    }
}
