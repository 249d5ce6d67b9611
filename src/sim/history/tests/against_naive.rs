//! The linear checks against a comparison of all pairs of leases, on random histories.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// The resource, the violating attempt, and the kind of the violation.
type Findings = BTreeSet<(Resource, AttemptId, &'static str)>;

/// A lease of a random history, with the numbers of its entries and its times.
struct Lease {
    attempt: AttemptId,
    resources: Vec<Resource>,
    shared: Vec<Resource>,
    token: u64,
    began: usize,
    granted: (usize, u64),
    ended: u64,
}

/// Draws the next attempt to act, the milliseconds before the act, and the token if the act is a
/// grant.
fn moves() -> impl Strategy<Value = Vec<(u64, u64, u64)>> {
    prop::collection::vec((0_u64..8, 0_u64..3, 1_u64..12), 0..40)
}

/// Plays moves: each attempt begins, is granted and ends, in this order. `resources` contains the
/// resources of each attempt, and those that it shares, as bits.
fn play(moves: &[(u64, u64, u64)], resources: &[(u8, u8)]) -> (History, Vec<Lease>) {
    let mut script = Script::new();
    let mut leases: Vec<Lease> = Vec::new();
    for (entry, &(number, later, value)) in moves.iter().enumerate() {
        script.at += Duration::from_millis(later);
        let (attempt, now) = (AttemptId::new(number), script.now());
        let named = |chosen: u8| {
            let each = ["a", "b", "c"].iter().enumerate().filter(move |(bit, _)| chosen & (1 << bit) != 0);
            each.map(|(_, name)| resource(name)).collect::<Vec<_>>()
        };
        let (chosen, read) = resources[usize::try_from(number).unwrap()];
        let (resources, shared) = (named(chosen), named(chosen & read));
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
        script.at_once(0, event);
    }
    leases.retain(|lease| lease.granted.0 != usize::MAX);
    (script.history, leases)
}

fn naive(leases: &[Lease]) -> Findings {
    let mut found = Findings::new();
    for first in leases {
        for second in leases.iter().filter(|second| first.granted.0 < second.granted.0) {
            for resource in second.resources.iter().filter(|resource| first.resources.contains(resource)) {
                let mut note = |how| found.insert((resource.clone(), second.attempt, how));
                let do_share = [first, second].iter().all(|lease| lease.shared.contains(resource));
                if !do_share && first.granted.1.max(second.granted.1) < first.ended.min(second.ended) {
                    note("overlaps");
                }
                if !do_share && first.token == second.token {
                    note("repeats");
                }
                if first.granted.0 < second.began && first.token > second.token {
                    note("falls");
                }
            }
        }
    }
    found
}

fn linear(history: &History) -> Findings {
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
    fn the_linear_check_finds_what_a_comparison_of_all_leases_finds(
        moves in moves(),
        resources in prop::collection::vec((1_u8..8, 0_u8..8), 8),
    ) {
        let (history, leases) = play(&moves, &resources);
        prop_assert_eq!(linear(&history), naive(&leases));
    }
}
