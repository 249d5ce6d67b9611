//! Settings and arguments of type `Duration` with extreme values. Most tests use in-memory nodes in virtual time.
//!
//! Promise: an extreme value works, or an error names the refused value. No value causes a panic.

use std::{fmt::Debug, time::Duration};

use super::bad_input::shown;
use redquorum::{
    Error, LockOptions, MemoryCluster, MultiLock, Quorum, QuorumBuilder, RedLock, error::ConfigError,
};

const EXTREMES: [Duration; 4] =
    [Duration::MAX, Duration::from_secs(1 << 63), Duration::ZERO, Duration::from_nanos(1)];

/// The largest accepted `max_ttl` and counter ttl.
const DECADE: Duration = Duration::from_secs(3650 * 24 * 3600);
/// The largest accepted poll interval.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// A method that sets a duration.
type Set<T> = fn(T, Duration) -> T;

/// Asserts that a settings error names the given value.
fn assert_names(error: &ConfigError, given: Duration) {
    let texts = [format!("is {}: ", shown(given)), format!("max_ttl of {given:?}")];
    assert!(texts.iter().any(|text| error.to_string().contains(text)), "{given:?}: {error}");
}

/// If the outcome is an error of settings, asserts that the error names the given value. Other errors are accepted,
/// because there may be no quorum, for example with a node timeout of a nanosecond.
fn assert_ok_or_named<T: Debug>(outcome: Result<T, Error>, given: Duration) {
    if let Err(Error::Config(error)) = outcome {
        assert_names(&error, given);
    }
}

/// Limits a wait to two days of virtual time, because with some accepted values a call waits forever.
async fn within_two_days<T>(work: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(2 * DAY, work).await.ok()
}

/// Makes each call of a lock, alone and in a group, while the lock is free and while another client holds it.
async fn call_lock(quorum: &Quorum, lock: RedLock, given: Duration) {
    assert_ok_or_named(lock.try_lock().await, given);
    assert_ok_or_named(MultiLock::from(lock.clone()).try_lock_for(Duration::MAX).await, given);
    assert_ok_or_named(MultiLock::across([lock.clone()]).try_lock_for(Duration::MAX).await, given);
    if let Ok(Some(guard)) = lock.try_lock_for(Duration::MAX).await {
        guard.expiring_within(Duration::MAX).await;
    }
    let Some(Ok(held)) = within_two_days(quorum.red_lock("r").lock()).await else { return };
    for wait in [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(40)] {
        assert_ok_or_named(lock.try_lock_for(wait).await, given);
    }
    let release = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        drop(held);
    };
    let (waited, ()) = tokio::join!(within_two_days(lock.lock()), release);
    waited.into_iter().for_each(|waited| assert_ok_or_named(waited, given));
}

#[tokio::test(start_paused = true)]
async fn no_extreme_time_of_a_quorum_panics() {
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
    let extremes =
        settings.iter().flat_map(|set| EXTREMES.map(|given| (set(Quorum::builder(), given), given)));
    for (builder, given) in extremes.chain([(longest, DECADE)]) {
        match builder.connect_in_memory(&MemoryCluster::new(3)) {
            Ok(quorum) => {
                let limited = LockOptions::new().hold_at_most(Duration::from_secs(60));
                call_lock(&quorum, quorum.red_lock("r").options(limited), given).await
            }
            Err(Error::Config(error)) => assert_names(&error, given),
            Err(other) => panic!("{given:?}: {other}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn no_extreme_time_of_a_lock_panics() {
    let quorum = Quorum::in_memory(3).unwrap();
    for (options, given) in options() {
        call_lock(&quorum, quorum.red_lock("r").options(options.without_renewal()), given).await;
    }
}

/// Returns options with each duration at its extremes, and at the longest and the shortest accepted poll interval.
fn options() -> impl Iterator<Item = (LockOptions, Duration)> {
    let settings: [Set<LockOptions>; 5] = [
        LockOptions::ttl,
        LockOptions::node_timeout,
        LockOptions::quorum_timeout,
        LockOptions::hold_at_most,
        LockOptions::poll_interval,
    ];
    let times = || EXTREMES.into_iter().chain([DAY, Duration::from_millis(1)]);
    settings
        .into_iter()
        .flat_map(move |set| times().map(move |given| (set(LockOptions::new(), given), given)))
}

#[tokio::test(start_paused = true)]
async fn no_extreme_time_of_an_election_panics() {
    let quorum = Quorum::in_memory(3).unwrap();
    let election = || quorum.election("e");
    for (candidate, given) in options().map(|(options, given)| (election().options(options), given)) {
        let leader = election().campaign("me").await.unwrap();
        assert_ok_or_named(candidate.try_campaign("me").await, given);
        for wait in [Duration::ZERO, Duration::from_nanos(1)] {
            assert_ok_or_named(candidate.try_campaign_for("me", wait).await, given);
        }
        if let Ok(mut leaders) = candidate.observe() {
            for _ in 0..2 {
                tokio::time::timeout(Duration::from_secs(20), leaders.next()).await.ok();
            }
        }
        let resign = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            leader.resign().await.unwrap();
        };
        let (campaigned, ()) = tokio::join!(within_two_days(candidate.campaign("me")), resign);
        campaigned.into_iter().for_each(|campaigned| assert_ok_or_named(campaigned, given));
    }
}

/// The node refuses connections. The client dials again until the connect timeout ends, which may be never.
#[tokio::test]
async fn no_extreme_connect_timeout_panics() {
    for given in EXTREMES {
        let connecting = Quorum::builder().nodes(["redis://127.0.0.1:1"]).connect_timeout(given).connect();
        let outcome = tokio::time::timeout(Duration::from_secs(1), connecting).await;
        match outcome {
            Ok(outcome) => assert!(matches!(outcome, Err(Error::NoQuorum(_))), "{outcome:?}"),
            Err(_) => assert!(given > DAY, "the connect timeout of {given:?} did not end the call"),
        }
    }
}

/// The blocking API uses the async API, with the same durations.
#[test]
fn no_extreme_time_of_the_blocking_api_panics() {
    let quorum = redquorum::blocking::Quorum::in_memory(3).unwrap();
    for given in EXTREMES {
        let free = || quorum.red_lock("r");
        let options = LockOptions::new;
        for options in [
            options().quorum_timeout(given),
            options().hold_at_most(given),
            options().ttl(given),
            options().node_timeout(given).quorum_timeout(Duration::from_millis(10)),
            options().poll_interval(given),
        ] {
            let lock = free().options(options);
            assert_ok_or_named(lock.try_lock(), given);
            assert_ok_or_named(lock.try_lock_for(Duration::MAX), given);
            let held = free().lock().unwrap();
            assert_ok_or_named(lock.try_lock_for(Duration::ZERO), given);
            assert_ok_or_named(lock.try_lock_for(Duration::from_nanos(1)), given);
            held.unlock().unwrap();
        }
    }
    quorum.shutdown();
}
