//! Every time that can be given, at its extremes: it works, or it is refused with an error that
//! names it, and nothing panics.

use std::{fmt::Debug, time::Duration};

use redquorum::{
    ConfigError, ConnectError, Election, LockError, MemoryCluster, MultiLock, Quorum, QuorumBuilder, RedLock,
    RetryPolicy,
};

const EXTREMES: [Duration; 4] =
    [Duration::MAX, Duration::from_secs(1 << 63), Duration::ZERO, Duration::from_nanos(1)];

/// The longest `max_ttl` and counter ttl, and the longest poll.
const DECADE: Duration = Duration::from_secs(3650 * 24 * 3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A setting of which any time can be given.
type Set<T> = fn(T, Duration) -> T;

/// That an error of settings names what was given.
fn named(error: &ConfigError, given: Duration) {
    assert!(error.to_string().contains(&format!("{given:?}")), "{given:?}: {error}");
}

/// That it was not refused without a reason. Other errors are fair: of a node timeout of a
/// nanosecond there may be no quorum.
fn fair<T: Debug>(outcome: Result<T, LockError>, given: Duration) {
    if let Err(LockError::Config(error)) = outcome {
        named(&error, given);
    }
}

/// Waits no longer than anybody would, in virtual time.
async fn within<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(2 * DAY, work).await.ok()
}

/// Uses a lock while it is free and while another holds it, alone and as a group.
async fn used(quorum: &Quorum, lock: RedLock, given: Duration) {
    fair(lock.try_lock().await, given);
    fair(MultiLock::new([lock.clone()]).try_lock_for(Duration::MAX).await, given);
    if let Ok(guard) = lock.try_lock_for(Duration::MAX).await {
        guard.expiring_within(Duration::MAX).await;
    }
    let Some(Ok(held)) = within(quorum.red_lock("r").lock()).await else { return };
    for wait in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(40)] {
        fair(lock.try_lock_for(wait).await, given);
    }
    let release = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(held);
    };
    let (waited, ()) = tokio::join!(within(lock.lock()), release);
    waited.into_iter().for_each(|waited| fair(waited, given));
}

#[tokio::test(start_paused = true)]
async fn no_time_of_a_quorum_panics() {
    let settings: [Set<QuorumBuilder>; 6] = [
        QuorumBuilder::ttl,
        QuorumBuilder::max_ttl,
        QuorumBuilder::node_timeout,
        QuorumBuilder::attempt_timeout,
        QuorumBuilder::connect_timeout,
        QuorumBuilder::counter_ttl,
    ];
    let longest = Quorum::builder().counter_ttl(DECADE).max_ttl(DECADE).ttl(DECADE).attempt_timeout(DECADE);
    let longest = longest.node_timeout(DECADE / 2);
    let others = settings.iter().flat_map(|set| EXTREMES.map(|given| (set(Quorum::builder(), given), given)));
    for (builder, given) in others.chain([(longest, DECADE)]) {
        match builder.in_memory(&MemoryCluster::new(3)) {
            Ok(quorum) => used(&quorum, quorum.red_lock("r").max_hold(Duration::from_secs(60)), given).await,
            Err(ConnectError::Config(error)) => named(&error, given),
            Err(other) => panic!("{given:?}: {other}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_time_of_a_lock_panics() {
    let settings: [Set<RedLock>; 4] =
        [RedLock::ttl, RedLock::node_timeout, RedLock::patience, RedLock::max_hold];
    let quorum = Quorum::in_memory(3).unwrap();
    for given in EXTREMES {
        for set in settings {
            used(&quorum, set(quorum.red_lock("r"), given).without_renewal(), given).await;
        }
    }
}

/// Those that make no sense, and the longest that do.
fn policies() -> impl Iterator<Item = (RetryPolicy, Duration)> {
    EXTREMES.into_iter().chain([DAY]).flat_map(|given| {
        let retry = RetryPolicy::default();
        [
            (retry.floor(given), given),
            (retry.polls(given, given), given),
            (retry.polls(Duration::from_millis(1), given), given),
            (retry.polls(given, given).floor(given), given),
        ]
    })
}

#[tokio::test(start_paused = true)]
async fn no_pace_of_retries_panics() {
    let quorum = Quorum::in_memory(3).unwrap();
    for (retry, given) in policies() {
        used(&quorum, quorum.red_lock("r").retry(retry).without_renewal(), given).await;
    }
}

#[tokio::test(start_paused = true)]
async fn no_time_of_an_election_panics() {
    let quorum = Quorum::in_memory(3).unwrap();
    let settings: [Set<Election>; 3] = [Election::ttl, Election::node_timeout, Election::patience];
    let election = || Election::new(&quorum, "e", "me");
    let timed = EXTREMES.into_iter().flat_map(|given| settings.map(|set| (set(election(), given), given)));
    let paced = policies().map(|(retry, given)| (election().retry(retry), given));
    for (candidate, given) in timed.chain(paced) {
        let leader = election().campaign().await.unwrap();
        fair(candidate.try_campaign().await, given);
        if let Ok(mut observation) = candidate.observe() {
            for _ in 0..2 {
                tokio::time::timeout(Duration::from_secs(20), observation.next()).await.ok();
            }
        }
        let resign = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            leader.resign().await.unwrap();
        };
        let (campaigned, ()) = tokio::join!(within(candidate.campaign()), resign);
        campaigned.into_iter().for_each(|campaigned| fair(campaigned, given));
    }
}

/// A node that refuses is asked again until the time is over: for ever, where there is no end of
/// it.
#[tokio::test]
async fn no_time_to_connect_panics() {
    for given in EXTREMES {
        let connecting = Quorum::builder().nodes(["redis://127.0.0.1:1"]).connect_timeout(given).connect();
        let outcome = tokio::time::timeout(Duration::from_secs(1), connecting).await;
        match outcome {
            Ok(outcome) => assert!(matches!(outcome, Err(ConnectError::NoQuorum { .. })), "{outcome:?}"),
            Err(_) => assert!(given > DAY, "{given:?} are over"),
        }
    }
}

/// The blocking API hands times on, and waits for nothing with a clock of its own.
#[test]
fn no_time_of_the_blocking_api_panics() {
    let quorum = redquorum::blocking::Quorum::in_memory(3).unwrap();
    for given in EXTREMES {
        let free = || quorum.red_lock("r");
        for lock in [
            free().patience(given),
            free().max_hold(given),
            free().ttl(given),
            free().node_timeout(given).patience(Duration::from_millis(10)),
            free().retry(RetryPolicy::default().polls(given, given)),
        ] {
            fair(lock.try_lock(), given);
            fair(lock.try_lock_for(Duration::MAX), given);
            let held = free().lock().unwrap();
            fair(lock.try_lock_for(Duration::ZERO), given);
            fair(lock.try_lock_for(Duration::from_nanos(1)), given);
            held.unlock().unwrap();
        }
    }
    quorum.shutdown();
}
