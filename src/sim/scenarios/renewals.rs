//! S89: the times of the renewals of a fleet, and of leases with different ttls.

use std::{
    pin::pin,
    sync::{Arc, Mutex},
};

use futures::future::{join_all, select};

use super::*;
use crate::sim::{Direction, Verdict};

/// The ttl of a client with the default settings. Leases are renewed at a third of this time.
const FLEET_TTL: Duration = Duration::from_secs(30);

/// The number of renewal intervals that the scenario watches.
const INTERVALS: u32 = 9;

/// The number of leases that one renewal call extends.
const LEASES_PER_CALL: usize = 64;

/// All clients lock `locks` resources of their own in the same second, and hold the leases. Returns the number of calls
/// at node 0 in each second between the locks and the unlocks.
fn renewals_per_second(clients: usize, locks: usize) -> Vec<u64> {
    let lasts = FLEET_TTL / 3 * INTERVALS;
    let report = Simulation::new(steady(3, clients)).budget(u64::MAX).run(|process| async move {
        let quorum = process.quorum().unwrap();
        process.sleep(SECOND).await;
        let locks = (0..locks).map(|lock| quorum.red_lock(format!("{}:{lock}", process.index())));
        let guards: Vec<_> = join_all(locks.map(async |lock| lock.lock().await.unwrap())).await;
        process.sleep(lasts + millis(1_500)).await;
        assert!(guards.iter().all(|guard| process.check_valid(guard)));
    });
    assert_eq!(report.end, End::Done);
    assert_keeps(&report, &Promises::ALL);
    let seconds = usize::try_from(lasts.as_secs()).unwrap();
    let calls = &report.loads[0].calls_per_second;
    assert!(calls.len() > 2 + seconds, "{calls:?}");
    calls[2..2 + seconds].to_vec()
}

/// Returns the largest number of calls in a second, divided by the mean.
fn peak(calls: &[u64]) -> f64 {
    let sum: u64 = calls.iter().sum();
    let largest = calls.iter().max().copied().unwrap_or_default();
    largest as f64 * calls.len() as f64 / sum as f64
}

#[test]
fn s89_clients_that_lock_together_renew_at_different_times() {
    let calls = renewals_per_second(300, 1);
    assert!(peak(&calls) <= 2.0, "{calls:?}");
    let together = breaking(Mutation::RenewTogether, || renewals_per_second(300, 1));
    assert!(peak(&together) >= 9.0, "{together:?}");
}

#[test]
fn s89_leases_of_a_client_that_begin_together_share_renewal_calls() {
    let in_one_call = renewals_per_second(1, LEASES_PER_CALL);
    let most = u64::from(INTERVALS);
    let sum: u64 = in_one_call.iter().sum();
    assert!((most..=most + 1).contains(&sum), "{in_one_call:?}");
    let of_a_thousand = renewals_per_second(1, 1_000);
    let sum: u64 = of_a_thousand.iter().sum();
    let calls = u64::try_from(1_000_usize.div_ceil(LEASES_PER_CALL)).unwrap();
    assert!((most * calls..=(most + 1) * calls).contains(&sum), "{of_a_thousand:?}");
}

/// The ttl of the long leases.
const LONG_TTL: Duration = Duration::from_secs(60);

/// The number of long leases. They begin one after the other, so that their renewals are different calls.
const LONG_LEASES: usize = 4;

/// A client holds long leases, and one lease with the ttl `short`. Returns the lost leases.
fn lost_of_different_ttls(schedule: Schedule, short: Duration) -> Vec<String> {
    let lost = Arc::<Mutex<Vec<String>>>::default();
    let report = Simulation::new(schedule).run(|process| {
        let lost = Arc::clone(&lost);
        async move {
            let quorum = process.quorum().unwrap();
            process.sleep(SECOND).await;
            let lock = async |name: String, ttl| {
                quorum.red_lock(name).options(LockOptions::new().ttl(ttl)).lock().await.unwrap()
            };
            let mut guards = vec![("short".to_owned(), lock("short".into(), short).await)];
            for number in 0..LONG_LEASES {
                let name = format!("long {number}");
                guards.push((name.clone(), lock(name, LONG_TTL).await));
                process.sleep(millis(770)).await;
            }
            let until_lost = guards.iter().map(async |(name, guard)| {
                select(pin!(process.lost(guard)), pin!(process.sleep(40 * SECOND))).await;
                if !process.check_valid(guard) {
                    lost.lock().unwrap().push(name.clone());
                }
            });
            join_all(until_lost).await;
        }
    });
    assert_eq!(report.end, End::Done);
    // Locks with a ttl below ten seconds leave keys for their ttl.
    assert_keeps(&report, &Promises::ALL.without(Promise::Residue));
    let mut lost = lost.lock().unwrap();
    std::mem::take(&mut *lost)
}

/// Two nodes lose a request, so their connections carry no further answer, and the short lease depends on new
/// connections. Each request is lost once. If the renewals of the short lease waited for those of the long leases, and the
/// connections were kept as long as for the long leases, the short lease would end before.
#[test]
fn s89_a_short_lease_survives_lost_renewals_of_long_leases() {
    let lost_in_all = |short: u32| -> Vec<String> {
        let lost_at = |index| {
            let lose = |schedule: Schedule, node| {
                schedule.with_message(0, node, Direction::Request, index, Verdict::Drop)
            };
            lost_of_different_ttls((0..2).fold(steady(3, 1), lose), short * SECOND)
        };
        (3..40).flat_map(lost_at).collect()
    };
    for short in [8, 9, 12] {
        assert_eq!(lost_in_all(short), [""; 0], "{short} s");
        let lost = breaking(Mutation::WaitForLongLeases, || lost_in_all(short));
        assert!(!lost.is_empty() && lost.iter().all(|name| name == "short"), "{short} s: {lost:?}");
    }
}
