//! Cases of the test suites of other libraries, on in-memory nodes in virtual time. `docs/evidence/suites.md` names the
//! suites.

use std::{sync::Mutex, time::Duration};

use futures::future::join_all;
use redquorum::{
    Error, LockOptions, MemoryCluster, MultiLock, Owner, Quorum, admin::force_unlock, error::LossReason,
};
use tokio::time::{Instant, sleep};

/// The default ttl.
const TTL: Duration = Duration::from_secs(30);

/// The time in which all requests that were sent without waiting are executed.
const SOON: Duration = Duration::from_millis(5);

fn client(cluster: &MemoryCluster) -> Quorum {
    Quorum::builder().connect_in_memory(cluster).unwrap()
}

fn clients(cluster: &MemoryCluster, number: usize) -> Vec<Quorum> {
    (0..number).map(|_| client(cluster)).collect()
}

fn without_renewal(ttl: Duration) -> LockOptions {
    LockOptions::new().ttl(ttl).without_renewal()
}

/// Returns the number of holds of each resource.
async fn holds<const N: usize>(quorum: &Quorum, resources: [&str; N]) -> [u32; N] {
    let mut holds = [0; N];
    for (resource, holds) in resources.into_iter().zip(&mut holds) {
        *holds = quorum.inspect(resource).await.unwrap().holds();
    }
    holds
}

/// Returns whether no node has a key of any of the resources.
async fn are_gone(quorum: &Quorum, resources: &[&str]) -> bool {
    for resource in resources {
        let inspection = quorum.inspect(resource).await.unwrap();
        if !inspection.nodes().all(|node| node.holder() == Ok(None)) {
            return false;
        }
    }
    true
}

/// No holder unlocks, so each lease ends with its ttl. All waiters attempt at that time, and the calls are polled in the
/// opposite order of their arrivals. So only the wait queue keeps the order.
#[tokio::test(start_paused = true)]
async fn waiters_get_the_lock_in_order_as_leases_expire() {
    let cluster = MemoryCluster::new(5);
    let ttl = Duration::from_secs(1);
    let (quorums, order) = (clients(&cluster, 8), Mutex::new(Vec::new()));
    let start = Instant::now();
    join_all(quorums.iter().enumerate().map(|(number, quorum)| {
        let order = &order;
        async move {
            sleep(SOON * u32::try_from(7 - number).unwrap()).await;
            let guard = quorum.red_lock("r").options(without_renewal(ttl)).lock().await.unwrap();
            std::mem::forget(guard);
            order.lock().unwrap().push(number);
        }
    }))
    .await;
    assert!(order.lock().unwrap().iter().copied().eq((0..8).rev()), "{order:?}");
    let took = start.elapsed();
    assert!(took > 7 * ttl * 9 / 10 && took < 8 * ttl, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn of_ten_clients_that_try_at_once_one_locks() {
    let cluster = MemoryCluster::new(5);
    let quorums = clients(&cluster, 10);
    for resources in [&["r"][..], &["a", "b", "c"]] {
        let attempts = quorums.iter().map(|quorum| async { quorum.multi_lock(resources).try_lock().await });
        let outcomes = join_all(attempts).await.into_iter();
        let guards: Vec<_> = outcomes.filter_map(|outcome| outcome.unwrap()).collect();
        assert_eq!(guards.len(), 1, "{resources:?}");
        drop(guards);
        sleep(SOON).await;
        assert!(are_gone(&quorums[0], resources).await, "{resources:?}");
    }
}

/// A turn takes longer than a wait, so most waits end without the lock.
#[tokio::test(start_paused = true)]
async fn clients_that_give_up_and_wait_again_lose_no_increment() {
    let cluster = MemoryCluster::new(3);
    let (quorums, counter) = (clients(&cluster, 10), Mutex::new(0));
    join_all(quorums.iter().map(|quorum| async {
        let lock = quorum.red_lock("r").options(without_renewal(Duration::from_secs(2)));
        for _ in 0..5 {
            let guard = loop {
                if let Some(guard) = lock.try_lock_for(Duration::from_millis(400)).await.unwrap() {
                    break guard;
                }
            };
            let count = *counter.lock().unwrap();
            sleep(Duration::from_secs(1)).await;
            *counter.lock().unwrap() = count + 1;
            guard.unlock().await.unwrap();
        }
    }))
    .await;
    assert_eq!(counter.into_inner().unwrap(), 50);
}

#[tokio::test(start_paused = true)]
async fn an_owner_re_enters_a_group_until_its_last_guard_unlocks() {
    let cluster = MemoryCluster::new(3);
    let other = client(&cluster);
    let lock = client(&cluster).multi_lock(["a", "b"]).owned_by(&Owner::new());
    let (outer, inner) = (lock.lock().await.unwrap(), lock.lock().await.unwrap());
    assert_eq!((inner.holds(), inner.fencing_token()), (2, outer.fencing_token()));
    assert_eq!(holds(&other, ["a", "b"]).await, [2, 2]);
    outer.unlock().await.unwrap();
    assert_eq!(inner.holds(), 1);
    assert_eq!(holds(&other, ["a", "b"]).await, [1, 1]);
    assert!(other.multi_lock(["b", "c"]).try_lock().await.unwrap().is_none());
    inner.unlock().await.unwrap();
    assert!(are_gone(&other, &["a", "b", "c"]).await);
}

/// The resource of the first quorum is free after 2 s. The resource of the second quorum stays held.
#[tokio::test(start_paused = true)]
async fn a_wait_for_locks_across_quorums_ends_at_its_deadline() {
    let clusters = [MemoryCluster::new(3), MemoryCluster::new(3)];
    let named = |name: &str, cluster| Quorum::builder().name(name).connect_in_memory(cluster).unwrap();
    let quorums = || [named("eu", &clusters[0]), named("us", &clusters[1])];
    let holders = quorums();
    let first = holders[0].red_lock("r").lock().await.unwrap();
    let _second = holders[1].red_lock("r").lock().await.unwrap();
    let group = MultiLock::across(quorums().each_ref().map(|quorum| quorum.red_lock("r")));
    let (start, wait) = (Instant::now(), Duration::from_secs(3));
    let unlock = async {
        sleep(Duration::from_secs(2)).await;
        first.unlock().await.unwrap();
    };
    let (outcome, ()) = tokio::join!(group.try_lock_for(wait), unlock);
    assert!(matches!(outcome, Ok(None)), "{outcome:?}");
    let took = start.elapsed();
    assert!(took >= wait - SOON && took <= wait + SOON, "{took:?}");
    sleep(SOON).await;
    assert!(are_gone(&holders[0], &["r"]).await, "the lease at the first quorum is left");
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_of_one_resource_ends_the_lease_of_its_group() {
    let cluster = MemoryCluster::new(3);
    let operator = client(&cluster);
    let group = client(&cluster).multi_lock(["a", "b"]).lock().await.unwrap();
    let start = Instant::now();
    force_unlock(&operator, "b").await.unwrap();
    assert_eq!(group.lost().await.reason, LossReason::Revoked);
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
    sleep(SOON).await;
    assert!(are_gone(&operator, &["a", "b"]).await, "the other resource is left");
}

#[tokio::test(start_paused = true)]
async fn try_acquire_many_returns_all_permits_or_none() {
    let cluster = MemoryCluster::new(3);
    let (client_a, client_b) = (client(&cluster), client(&cluster));
    let (semaphore_a, semaphore_b) = (client_a.semaphore("s", 5), client_b.semaphore("s", 5));
    let mut held = semaphore_a.try_acquire_many(3).await.unwrap().unwrap();
    assert!(semaphore_b.try_acquire_many(4).await.unwrap().is_none());
    sleep(SOON).await;
    assert_eq!(semaphore_b.available_permits().await.unwrap(), 2, "the refused call has kept permits");
    let (start, wait) = (Instant::now(), Duration::from_secs(2));
    assert!(semaphore_b.try_acquire_many_for(4, wait).await.unwrap().is_none());
    let took = start.elapsed();
    assert!(took >= wait && took <= wait + SOON, "{took:?}");
    let release_two = async {
        for permit in held.drain(..2) {
            sleep(wait / 4).await;
            permit.release().await.unwrap();
        }
    };
    let (acquired, ()) = tokio::join!(semaphore_b.try_acquire_many_for(4, wait), release_two);
    assert_eq!(acquired.unwrap().map(|permits| permits.len()), Some(4));
    drop(held);
    sleep(SOON).await;
    assert_eq!(semaphore_b.available_permits().await.unwrap(), 5);
}

/// The client has two permits without renewal and two permits with renewal.
#[tokio::test(start_paused = true)]
async fn permits_that_expire_do_not_affect_other_permits_of_their_client() {
    let cluster = MemoryCluster::new(3);
    let quorum = client(&cluster);
    let semaphore = || quorum.semaphore("s", 5);
    let expiring = semaphore().options(without_renewal(TTL)).acquire_many(2).await.unwrap();
    let renewed = semaphore().acquire_many(2).await.unwrap();
    assert_eq!(semaphore().available_permits().await.unwrap(), 1);
    sleep(2 * TTL).await;
    assert_eq!(semaphore().available_permits().await.unwrap(), 3);
    for permit in expiring {
        let released = permit.release().await;
        assert!(matches!(released, Err(Error::LeaseLost(_))), "{released:?}");
    }
    assert!(renewed.iter().all(|permit| permit.is_valid()));
    assert_eq!(semaphore().available_permits().await.unwrap(), 3);
    for permit in renewed {
        permit.release().await.unwrap();
    }
    assert_eq!(semaphore().available_permits().await.unwrap(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_permit_without_renewal_lasts_a_ttl_after_its_renewal_on_request() {
    let quorum = client(&MemoryCluster::new(3));
    let semaphore = quorum.semaphore("s", 1).options(without_renewal(TTL));
    let permit = semaphore.acquire().await.unwrap();
    for _ in 0..3 {
        sleep(TTL * 2 / 3).await;
        permit.renew().await.unwrap();
        assert!(permit.remaining() > TTL * 9 / 10, "{:?}", permit.remaining());
        assert_eq!(semaphore.available_permits().await.unwrap(), 0);
    }
    sleep(TTL).await;
    assert_eq!(semaphore.available_permits().await.unwrap(), 1);
    let renewed = permit.renew().await;
    assert!(matches!(renewed, Err(Error::LeaseLost(_))), "{renewed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_force_unlock_of_a_slot_ends_no_other_permit() {
    let cluster = MemoryCluster::new(3);
    let (quorum, operator) = (client(&cluster), client(&cluster));
    let semaphore = quorum.semaphore("s", 2);
    let (ended, other) = (semaphore.acquire().await.unwrap(), semaphore.acquire().await.unwrap());
    let start = Instant::now();
    force_unlock(&operator, semaphore.slot_resource(ended.slot()).unwrap()).await.unwrap();
    assert_eq!(ended.lost().await.reason, LossReason::Revoked);
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
    sleep(2 * TTL).await;
    assert!(other.is_valid());
    assert_eq!(semaphore.available_permits().await.unwrap(), 1);
}

/// Each client locks all names in the same order, and acquires the only permit of the name under the lock.
#[tokio::test(start_paused = true)]
async fn a_permit_is_free_under_each_of_many_locks() {
    let cluster = MemoryCluster::new(3);
    let quorums = clients(&cluster, 4);
    let start = Instant::now();
    join_all(quorums.iter().map(|quorum| async {
        for name in 0..250 {
            let guard = quorum.red_lock(format!("lock {name}")).lock().await.unwrap();
            let permit = quorum.semaphore(format!("semaphore {name}"), 1).try_acquire().await.unwrap();
            permit.expect("the last holder of the lock has kept the permit").release().await.unwrap();
            guard.unlock().await.unwrap();
        }
    }))
    .await;
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}
