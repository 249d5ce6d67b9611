//! S89: the times of the renewals of a fleet.

use futures::future::join_all;

use super::*;

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
