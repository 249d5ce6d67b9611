//! Settings and arguments that cannot work: an error that names the value and what would be right,
//! before anything is sent.

use std::time::Duration;

use redquorum::{
    LockOptions, MemoryCluster, MultiLock, Quorum, QuorumBuilder, RedLock,
    error::{ConfigError, ConnectError, InvalidResource, LockError},
};

const URLS: [&str; 3] = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];

/// What a quorum is refused for; the addresses lead nowhere, so a refusal that came late would
/// show.
async fn refused(builder: QuorumBuilder) -> ConfigError {
    let outcome = tokio::time::timeout(Duration::from_secs(1), builder.connect()).await;
    match outcome.expect("refused before anything is sent") {
        Err(ConnectError::Config(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Says the same of a lock, whichever way it is used.
async fn refused_lock(lock: RedLock) -> ConfigError {
    let outcomes = [
        lock.try_lock().await.map(drop),
        lock.lock().await.map(drop),
        lock.try_lock_for(Duration::MAX).await.map(drop),
    ];
    let [Err(LockError::Config(error)), second, third] = outcomes else { panic!("{outcomes:?}") };
    assert_eq!(
        (second, third),
        (Err(LockError::Config(error.clone())), Err(LockError::Config(error.clone())))
    );
    error
}

fn three() -> QuorumBuilder {
    Quorum::builder().nodes(URLS)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn an_environment_that_names_no_nodes_is_refused_with_the_name_of_the_variable() {
    assert_eq!(std::env::var_os("REDQUORUM_NODES"), None, "this test is about an environment without it");
    let error = Quorum::builder().nodes_from_env().unwrap_err();
    assert_eq!(error, ConfigError::NoNodesVariable);
    assert!(error.to_string().contains("REDQUORUM_NODES is not set"), "{error}");
}

#[tokio::test]
async fn no_nodes_and_too_many_are_refused() {
    let none = refused(Quorum::builder()).await;
    assert_eq!(none, ConfigError::NoNodes);
    assert_eq!(
        none.to_string(),
        "no nodes were given: name at least one, or an odd number such as 3 or 5 for a quorum"
    );
    let many =
        refused(Quorum::builder().nodes((0..65).map(|port| format!("redis://10.0.0.1:{}", 7000 + port))))
            .await;
    assert_eq!(many.to_string(), "65 nodes were given: at most 64 make a quorum");
}

/// One address has one vote, however it is written.
#[tokio::test]
async fn one_address_given_twice_is_refused() {
    let ways = [
        "redis://localhost:7000",
        "redis://localhost:7000/",
        "redis://localhost:7000/3",
        "redis://LOCALHOST:7000",
        "redis://:secret@localhost:7000",
        "redis://me:secret@localhost:7000/0",
    ];
    for other in ways {
        let error = refused(Quorum::builder().nodes(["redis://localhost:7000", other])).await;
        assert_eq!(
            error.to_string(),
            "node localhost:7000 was given twice: each server has one vote, whatever its databases \
             and users, name it once",
            "{other}"
        );
    }
    let error = refused(Quorum::builder().nodes(["redis://10.0.0.1", "redis://10.0.0.1:6379"])).await;
    assert_eq!(error, ConfigError::DuplicateNode { address: "10.0.0.1:6379".into() });
}

#[tokio::test]
async fn a_url_that_cannot_be_read_is_refused_without_its_password() {
    for (url, shown) in [
        ("nonsense", "nonsense"),
        ("http://me:secret@10.0.0.1", "http://***@10.0.0.1"),
        ("redis://me:secret@:1", "redis://***@:1"),
        ("redis://me:se@cret@10.0.0.1:port", "redis://***@10.0.0.1:port"),
        ("redis://me:secret@10.0.0.1/database", "redis://***@10.0.0.1/database"),
        ("rediss://me:secret@:1", "rediss://***@:1"),
        ("", ""),
    ] {
        let error = refused(Quorum::builder().nodes([url])).await;
        let ConfigError::Url { url: found, .. } = &error else { panic!("{url}: {error}") };
        assert_eq!(&**found, shown);
        let message = error.to_string();
        assert!(message.ends_with("write it like redis://10.0.0.1:6379"), "{message}");
        for secret in [message, format!("{error:?}")] {
            assert!(!secret.contains("secret") && !secret.contains("cret@"), "{secret}");
        }
    }
}

#[tokio::test]
async fn votes_needed_out_of_range_are_refused() {
    for given in [0, 1, 4] {
        let error = refused(three().votes_needed(given)).await;
        let votes = if given == 1 { "vote" } else { "votes" };
        let expected = format!("{given} {votes} needed of 3 nodes: a majority is 2, so give 2 to 3");
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn ttls_out_of_range_are_refused_for_quorums_and_for_locks() {
    let quorum = Quorum::in_memory(3).unwrap();
    for given in [Duration::ZERO, Duration::from_nanos(1), millis(3)] {
        let error = refused(three().ttl(given)).await;
        assert_eq!(error, ConfigError::TtlTooShort { given, least: millis(4) });
        assert_eq!(error, refused_lock(quorum.red_lock("r").ttl(given)).await);
        let message =
            format!("a ttl of {given:?} leaves no time to work after drift and margin: give 4ms or more");
        assert_eq!(error.to_string(), message);
    }
    for given in [millis(60_001), Duration::MAX] {
        let error = refused(three().ttl(given)).await;
        assert_eq!(error, ConfigError::TtlTooLong { given, most: millis(60_000) });
        assert_eq!(error, refused_lock(quorum.red_lock("r").ttl(given)).await);
    }
    let error = refused(three().ttl(millis(60_001))).await;
    let message =
        "a ttl of 60.001s is above the quorum's max_ttl of 60s: shorten it, or raise max_ttl for all clients";
    assert_eq!(error.to_string(), message);
}

#[tokio::test]
async fn node_timeouts_that_leave_no_time_are_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    for given in [Duration::ZERO, millis(500), millis(501)] {
        let error = refused(three().ttl(millis(500)).node_timeout(given)).await;
        assert_eq!(error, ConfigError::NodeTimeout { given, ttl: millis(500) });
        let options = LockOptions::new().ttl(millis(500)).node_timeout(given);
        assert_eq!(error, refused_lock(quorum.red_lock("r").options(options)).await);
        let message = format!(
            "a node timeout of {given:?} does not fit a ttl of 500ms: it has to be above zero and \
             below the ttl"
        );
        assert_eq!(error.to_string(), message);
    }
}

#[tokio::test]
async fn other_times_out_of_range_are_refused() {
    let zero = refused(three().attempt_timeout(Duration::ZERO)).await;
    assert_eq!(zero, ConfigError::AttemptTimeout { given: Duration::ZERO, most: millis(60_000) });
    let long = refused(three().attempt_timeout(millis(60_001))).await;
    assert!(
        long.to_string().contains("60.001s") && long.to_string().contains("at most the max_ttl of 60s"),
        "{long}"
    );
    let counter = refused(three().counter_ttl(millis(59_999))).await;
    assert!(counter.to_string().contains("59.999s is below the max_ttl of 60s"), "{counter}");
    for drift in [-0.01, 0.5, 1.0, f64::NAN, f64::INFINITY] {
        let error = refused(three().drift(drift)).await;
        let message =
            format!("a drift of {drift} is out of range: give a share from 0 to below 0.5, such as 0.01");
        assert_eq!(error.to_string(), message);
    }
    let quorum = Quorum::in_memory(3).unwrap();
    let error = refused_lock(quorum.red_lock("r").options(LockOptions::new().max_hold(Duration::ZERO))).await;
    assert_eq!(error.to_string(), "a max_hold of 0ns is out of range: it has to be above zero");
}

#[tokio::test]
async fn polls_and_retries_that_would_spin_are_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    for given in [Duration::ZERO, Duration::from_micros(10)] {
        let error = refused_lock(quorum.red_lock("r").options(LockOptions::new().retry_delay(given))).await;
        let message = format!("a retry delay of {given:?} is out of range: it has to be at least 1ms");
        assert_eq!(error.to_string(), message);
    }
    for (first, longest) in [(0, 0), (0, 10), (2, 1)] {
        let (first, longest) = (millis(first), millis(longest));
        let polls = LockOptions::new().polls(first, longest);
        let error = refused_lock(quorum.red_lock("r").options(polls)).await;
        assert_eq!(error, ConfigError::Polls { first, longest, least: millis(1) });
    }
}

#[tokio::test]
async fn times_beyond_any_use_are_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    let day = Duration::from_secs(24 * 3600);
    for given in [day + millis(1), Duration::MAX] {
        let delay = refused_lock(quorum.red_lock("r").options(LockOptions::new().retry_delay(given))).await;
        assert_eq!(delay, ConfigError::TooLong { setting: "retry delay", given, most: day });
        let polls = LockOptions::new().polls(millis(1), given);
        let polls = refused_lock(quorum.red_lock("r").options(polls)).await;
        assert_eq!(polls, ConfigError::TooLong { setting: "poll", given, most: day });
        assert_eq!(polls.to_string(), format!("a poll of {given:?} is too long: expected at most 86400s"));
    }
    let decade = 3650 * day;
    for given in [decade + millis(1), Duration::MAX] {
        let max_ttl = refused(three().max_ttl(given).counter_ttl(given)).await;
        assert_eq!(max_ttl, ConfigError::TooLong { setting: "max_ttl", given, most: decade });
        let counter_ttl = refused(three().counter_ttl(given)).await;
        assert_eq!(counter_ttl, ConfigError::TooLong { setting: "counter ttl", given, most: decade });
    }
}

/// What a group is refused for.
async fn refused_group(group: MultiLock) -> ConfigError {
    match group.try_lock().await {
        Err(LockError::Config(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// A server can do nothing else while it takes a group.
#[tokio::test]
async fn groups_that_are_too_large_for_one_quorum_are_refused() {
    let names = |count: usize| (0..count).map(|number| format!("r{number}")).collect::<Vec<_>>();
    let [eu, us] =
        ["eu", "us"].map(|name| Quorum::builder().name(name).in_memory(&MemoryCluster::new(3)).unwrap());
    for given in [1001, 8000] {
        let error = refused_group(eu.multi_lock(names(given))).await;
        assert_eq!(error, ConfigError::GroupTooLarge { given, most: 1000 });
        let message =
            format!("a group of {given} resources of one quorum was to be locked: expected at most 1000");
        assert_eq!(error.to_string(), message);
    }
    let locks = |count: usize| {
        let names = names(count);
        [&eu, &us].map(|quorum| names.iter().map(|name| quorum.red_lock(name)).collect::<Vec<_>>()).concat()
    };
    let error = refused_group(MultiLock::new(locks(1001))).await;
    assert_eq!(error, ConfigError::GroupTooLarge { given: 1001, most: 1000 });
    let largest = MultiLock::new(locks(1000)).try_lock().await.unwrap().expect("nobody else is there");
    largest.unlock().await.unwrap();
}

#[tokio::test]
async fn names_under_which_nodes_keep_what_they_know_are_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    for given in ["redquorum:node", "redisson_lock_token:{a}", "redisson_lock__channel:{a}"] {
        let error = refused_lock(quorum.red_lock(given)).await;
        assert_eq!(error, ConfigError::Resource(InvalidResource::Reserved { given: given.into() }));
        let message = format!(
            "the resource name {given:?} is reserved: expected one that does not begin with \"redquorum:\", \
             \"redisson_lock_token:\" or \"redisson_lock__channel:\""
        );
        assert_eq!(error.to_string(), message);
    }
}

#[tokio::test]
async fn resources_and_names_that_cannot_be_are_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    for length in [0, 513, 100_000] {
        let error = refused_lock(quorum.red_lock(vec![b'x'; length])).await;
        assert_eq!(error, ConfigError::Resource(InvalidResource::Length { length }));
        assert_eq!(error.to_string(), format!("a resource of {length} bytes: expected 1 to 512 bytes"));
    }
    for (name, shown) in [("", ""), ("a b", "a b"), ("a\nb", "a\\nb"), ("späte", "späte")] {
        let error = refused(three().name(name)).await;
        let message = format!(
            "the quorum name \"{shown}\" is not plain: expected 1 to 64 letters, digits, '-', '_' or '.'"
        );
        assert_eq!(error.to_string(), message);
    }
    assert!(matches!(refused(three().name("x".repeat(65))).await, ConfigError::QuorumName { .. }));
}

#[tokio::test]
async fn labels_that_are_no_line_for_people_are_refused() {
    for (label, shown) in
        [("", ""), ("a\nb", "a\\nb"), ("a\u{202e}b", "a\\u{202e}b"), (&*"x".repeat(49), &*"x".repeat(49))]
    {
        let error = refused(three().label(label)).await;
        let message =
            format!("the label \"{shown}\" cannot be shown: expected 1 to 48 bytes of characters that print");
        assert_eq!(error.to_string(), message);
    }
    let cluster = MemoryCluster::new(3);
    let [one, other] = ["web 7 (blue)", "x/y"].map(|label| {
        let builder = Quorum::builder().label(label);
        builder.in_memory(&cluster).unwrap()
    });
    let held = one.red_lock("r").lock().await.unwrap();
    assert_eq!(held.owner().label(), Some("web 7 (blue)"));
    let refused = other.red_lock("r").try_lock_for(Duration::ZERO).await.unwrap_err();
    assert!(refused.to_string().contains("held by web 7 (blue)/"), "the error names the holder: {refused}");
    held.unlock().await.unwrap();
    assert_eq!(other.red_lock("r").lock().await.unwrap().owner().label(), Some("x/y"));
}

/// The largest values that are allowed, and durations without end, work.
#[tokio::test]
async fn the_limits_themselves_are_allowed() {
    let quorum = Quorum::in_memory(64).unwrap();
    let lock = quorum.red_lock([b'x'; 512]).options(
        LockOptions::new().ttl(millis(60_000)).max_hold(Duration::MAX).quorum_timeout(Duration::MAX),
    );
    let guard = lock.try_lock_for(Duration::MAX).await.unwrap();
    assert!(guard.is_valid() && guard.remaining() <= millis(60_000));
    guard.unlock().await.unwrap();
    let shortest = quorum.red_lock("r").options(LockOptions::new().ttl(millis(4)).node_timeout(millis(3)));
    drop(shortest.try_lock().await);
}

#[test]
fn a_quorum_needs_a_runtime_and_says_so() {
    let outcome = Quorum::in_memory(3);
    let Err(ConnectError::Config(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        error.to_string(),
        "no tokio runtime: build the quorum inside of one, it runs its tasks there"
    );
}
