//! Invalid settings and arguments.
//!
//! Promise: before any request is sent, an error names the invalid value and, where possible, the accepted values.

use std::{path::Path, time::Duration};

use redquorum::{
    Error, FencingToken, LockOptions, MemoryCluster, MultiLock, MultiQuorumLock, Quorum, QuorumBuilder,
    RedLock,
    error::{ConfigError, InvalidResource},
    settings,
};

const URLS: [&str; 3] = ["redis://10.0.0.1", "redis://10.0.0.2", "redis://10.0.0.3"];

/// Returns the error of invalid settings of a quorum. No server runs at the addresses. If the client dialled, the call
/// would exceed the timeout.
async fn refused(builder: QuorumBuilder) -> ConfigError {
    let outcome = tokio::time::timeout(Duration::from_secs(1), builder.connect()).await;
    match outcome.expect("the client dialled in place of refusing the settings") {
        Err(Error::Config(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Returns the error of an invalid lock, and asserts that each call of the lock returns this error.
async fn refused_lock(lock: RedLock) -> ConfigError {
    let outcomes = [
        lock.try_lock().await.map(drop),
        lock.lock().await.map(drop),
        lock.try_lock_for(Duration::MAX).await.map(drop),
        lock.run(async |_| ()).await,
    ];
    let Err(Error::Config(error)) = &outcomes[0] else { panic!("{outcomes:?}") };
    assert!(outcomes.iter().all(|outcome| *outcome == Err(Error::Config(error.clone()))), "{outcomes:?}");
    error.clone()
}

/// Returns the error of a lock with these options.
async fn refused_options(options: LockOptions) -> ConfigError {
    refused_lock(Quorum::in_memory(3).unwrap().red_lock("r").options(options)).await
}

/// Asserts that the error names a setting with its value and the accepted values.
fn assert_out_of_range(error: &ConfigError, name: &str, value: &str, accepted: &str) {
    let ConfigError::OutOfRange { setting, given, expected, .. } = error else { panic!("{error:?}") };
    assert_eq!((*setting, &**given, &**expected), (name, value, accepted));
}

/// Returns a duration as errors show it: a zero has no unit.
pub(super) fn shown(given: Duration) -> String {
    if given.is_zero() { "0".to_owned() } else { format!("{given:?}") }
}

fn three_nodes() -> QuorumBuilder {
    Quorum::builder().nodes(URLS)
}

fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn an_environment_without_nodes_is_refused_with_the_variable() {
    assert_eq!(
        std::env::var_os("REDQUORUM_NODES"),
        None,
        "the test needs an environment without REDQUORUM_NODES"
    );
    let error = Quorum::builder().nodes_from_env().unwrap_err();
    let Error::Config(ConfigError::Variable { name, given, .. }) = &error else { panic!("{error:?}") };
    assert_eq!((*name, &**given), ("REDQUORUM_NODES", ""));
    let text = "the environment variable REDQUORUM_NODES=\"\": not set, or empty: name the nodes, such as \
                redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn no_nodes_and_too_many_are_refused() {
    let none = refused(Quorum::builder()).await;
    assert_eq!(none, ConfigError::NoNodes);
    assert_eq!(
        none.to_string(),
        "no nodes: name an odd number of nodes, such as 3 or 5: by `nodes` of the builder, by `nodes` in the settings \
         file that REDQUORUM_CONFIG or the program names, or by REDQUORUM_NODES"
    );
    let urls = (0..65).map(|port| format!("redis://10.0.0.1:{}", 7000 + port));
    let many = refused(Quorum::builder().nodes(urls)).await;
    assert_out_of_range(&many, "nodes", "65", "at most 64");
    assert_eq!(many.to_string(), "nodes is 65: expected at most 64");
}

/// An address has one vote. The spelling, the database and the user do not matter.
#[tokio::test]
async fn an_address_given_twice_is_refused() {
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
            "localhost:7000: the node is named twice: each server has one vote, even if the urls differ in database or \
             user, so name the server once",
            "{other}"
        );
    }
    let error = refused(Quorum::builder().nodes(["redis://10.0.0.1", "redis://10.0.0.1:6379"])).await;
    let ConfigError::Url { url, .. } = &error else { panic!("{error:?}") };
    assert_eq!(&**url, "10.0.0.1:6379");
}

#[tokio::test]
async fn a_url_that_cannot_be_read_is_refused_without_its_password() {
    for (url, shown) in [
        ("nonsense", "***"),
        ("http://me:secret@10.0.0.1", "http://10.0.0.1"),
        ("redis://me:secret@:1", "redis://***"),
        ("redis://me:se@cret@10.0.0.1:port", "redis://***"),
        ("redis://me:secret@10.0.0.1/database", "redis://10.0.0.1"),
        ("rediss://me:secret@:1", "rediss://***"),
        ("redis://10.0.0.1?protocol=secret", "redis://10.0.0.1"),
        ("unix:///run/redis.sock?protocol=secret", "unix://***"),
        ("unix:///run/redis.sock?db=secret", "unix://***"),
        ("redis+sentinel://10.0.0.1/set?db=secret", "redis+sentinel://10.0.0.1"),
        ("", ""),
    ] {
        let error = refused(Quorum::builder().nodes([url])).await;
        let ConfigError::Url { url: found, .. } = &error else { panic!("{url}: {error}") };
        assert_eq!(&**found, shown);
        let message = error.to_string();
        let is_told =
            ["write a node's url like redis://10.0.0.1:6379, and ", "like redis+sentinel://10.0.0.1:26379"]
                .map(|words| message.contains(words));
        assert!(is_told.contains(&true), "{message}");
        for secret in [message, format!("{error:?}")] {
            assert!(!secret.contains("secret") && !secret.contains("cret@"), "{secret}");
        }
    }
}

#[tokio::test]
async fn a_refused_url_of_several_is_named_by_its_number() {
    let error = refused(Quorum::builder().nodes(["redis://10.0.0.1", "secret", "redis://10.0.0.3"])).await;
    assert!(error.to_string().starts_with("node 2, ***: "), "{error}");
}

#[tokio::test]
async fn votes_needed_out_of_range_are_refused() {
    for given in [0, 1, 4] {
        let error = refused(three_nodes().votes_needed(given)).await;
        let text = format!("votes_needed is {given}: expected 2 to 3: 2 of 3 nodes are a majority");
        assert_eq!(error.to_string(), text);
    }
}

#[tokio::test]
async fn ttls_out_of_range_are_refused_for_quorums_and_for_locks() {
    for given in [Duration::ZERO, Duration::from_nanos(1), millis(3)] {
        let error = refused(three_nodes().ttl(given)).await;
        let accepted = "4ms or more, since drift and margin leave nothing of a shorter ttl";
        assert_out_of_range(&error, "ttl", &shown(given), accepted);
        assert_eq!(error, refused_options(LockOptions::new().ttl(given)).await);
        assert_eq!(error.to_string(), format!("ttl is {}: expected {accepted}", shown(given)));
    }
    for given in [millis(60_001), Duration::MAX] {
        let error = refused(three_nodes().ttl(given)).await;
        let accepted = "at most the quorum's max_ttl of 60s: shorten it, or raise max_ttl of the whole quorum by \
                        `redquorum reconfigure` or `admin::reconfigure`";
        assert_out_of_range(&error, "ttl", &shown(given), accepted);
        assert_eq!(error, refused_options(LockOptions::new().ttl(given)).await);
    }
    let error = refused(three_nodes().ttl(millis(60_001))).await;
    let text = "ttl is 60.001s: expected at most the quorum's max_ttl of 60s: shorten it, or raise max_ttl of the whole \
                quorum by `redquorum reconfigure` or `admin::reconfigure`";
    assert_eq!(error.to_string(), text);
}

#[tokio::test]
async fn node_timeouts_that_leave_no_time_are_refused() {
    for given in [Duration::ZERO, millis(500), millis(501)] {
        let error = refused(three_nodes().ttl(millis(500)).node_timeout(given)).await;
        let accepted = "a time above zero and below the ttl of 500ms";
        assert_out_of_range(&error, "node_timeout", &shown(given), accepted);
        let options = LockOptions::new().ttl(millis(500)).node_timeout(given);
        assert_eq!(error, refused_options(options).await);
        assert_eq!(error.to_string(), format!("node_timeout is {}: expected {accepted}", shown(given)));
    }
}

#[tokio::test]
async fn further_times_out_of_range_are_refused() {
    let accepted = "a time above zero, and at most the max_ttl of 60s";
    let zero = refused(three_nodes().attempt_timeout(Duration::ZERO)).await;
    assert_out_of_range(&zero, "attempt_timeout", "0", accepted);
    let long = refused(three_nodes().attempt_timeout(millis(60_001))).await;
    assert_out_of_range(&long, "attempt_timeout", "60.001s", accepted);
    let counter = refused(three_nodes().counter_ttl(millis(59_999))).await;
    let accepted = "60s or more, since a counter has to outlive every lease of max_ttl 60s";
    assert_out_of_range(&counter, "counter_ttl", "59.999s", accepted);
    for drift in [-0.01, 0.5, 1.0, f64::NAN, f64::INFINITY] {
        let error = refused(three_nodes().drift(drift)).await;
        let text = format!("drift is {drift}: expected a share of time from 0 to below 0.5, such as 0.01");
        assert_eq!(error.to_string(), text);
    }
    let error = refused_options(LockOptions::new().hold_at_most(Duration::ZERO)).await;
    assert_eq!(error.to_string(), "hold_at_most is 0: expected a time above zero");
    for (given, text) in [(Duration::ZERO, "0"), (millis(60_001), "60.001s")] {
        let error = refused_options(LockOptions::new().hold_at_least(given)).await;
        assert_out_of_range(
            &error,
            "hold_at_least",
            text,
            "a time above zero, and at most the max_ttl of 60s",
        );
    }
}

#[tokio::test]
async fn poll_intervals_below_a_millisecond_are_refused() {
    for given in [Duration::ZERO, Duration::from_micros(10), Duration::from_micros(999)] {
        let error = refused_options(LockOptions::new().poll_interval(given)).await;
        assert_out_of_range(&error, "poll_interval", &shown(given), "1ms to 86400s");
    }
}

#[tokio::test]
async fn times_above_their_maximum_are_refused() {
    let day = Duration::from_secs(24 * 3600);
    for given in [day + millis(1), Duration::MAX] {
        let error = refused_options(LockOptions::new().poll_interval(given)).await;
        assert_eq!(error.to_string(), format!("poll_interval is {given:?}: expected 1ms to 86400s"));
    }
    let decade = 3650 * day;
    for given in [decade + millis(1), Duration::MAX] {
        let shown = format!("{given:?}");
        let max_ttl = refused(three_nodes().max_ttl(given).counter_ttl(given)).await;
        assert_out_of_range(&max_ttl, "max_ttl", &shown, "at most 315360000s");
        let counter_ttl = refused(three_nodes().counter_ttl(given)).await;
        assert_out_of_range(&counter_ttl, "counter_ttl", &shown, "at most 315360000s");
    }
}

/// Returns the reason why a group is refused.
fn reason<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    let Err(Error::Config(ConfigError::Group { reason, .. })) = outcome else { panic!("{outcome:?}") };
    reason.to_string()
}

/// A server executes no other request while it locks a group, so the size is limited.
#[tokio::test]
async fn groups_that_are_too_large_for_one_quorum_are_refused() {
    let names = |count: usize| (0..count).map(|number| format!("r{number}")).collect::<Vec<_>>();
    let [eu, us] = ["eu", "us"]
        .map(|name| Quorum::builder().name(name).connect_in_memory(&MemoryCluster::new(3)).unwrap());
    for given in [1001, 8000] {
        let group = eu.multi_lock(names(given));
        assert_eq!(reason(group.try_lock().await), format!("{given} resources: expected at most 1000"));
        assert_eq!(
            group.lock().await.unwrap_err().to_string(),
            format!("group: {given} resources: expected at most 1000")
        );
    }
    let half = eu.multi_lock(names(500)).and_read(names(1001).split_off(500));
    assert_eq!(reason(half.try_lock().await), "1001 resources: expected at most 1000");
    let across = |count: usize| -> MultiQuorumLock {
        let names = names(count);
        MultiLock::across(
            [&eu, &us].into_iter().flat_map(|quorum| names.iter().map(|name| quorum.red_lock(name))),
        )
    };
    assert_eq!(reason(across(1001).try_lock().await), "1001 resources: expected at most 1000");
    let largest = across(1000).try_lock().await.unwrap().expect("a resource is held");
    assert_eq!(largest.leases().map(|lease| lease.resources().len()).collect::<Vec<_>>(), [1000, 1000]);
    largest.unlock().await.unwrap();
}

/// Two leases of one quorum have no order in which all clients would lock them.
#[tokio::test]
async fn groups_across_quorums_without_an_order_are_refused() {
    let cluster = MemoryCluster::new(3);
    let client = || Quorum::builder().name("eu").connect_in_memory(&cluster).unwrap();
    let (one, other) = (client(), client());
    let two_clients = MultiLock::across([one.red_lock("a"), other.red_lock("b")]);
    assert_eq!(
        reason(two_clients.lock().await),
        format!(
            "two clients of one quorum ({}): take its locks from one client, or name quorums apart",
            "name=eu nodes=3 needed=2 max_ttl=60000ms attempt_timeout=5000ms drift=0.01 protocol=3"
        )
    );
    let ttl = LockOptions::new().ttl(millis(500));
    let different = MultiLock::across([one.red_lock("a").options(ttl), one.red_lock("b")]);
    assert_eq!(
        reason(different.lock().await),
        "locks of one client have different options or owners: they form one group, so give all of them the same"
    );
}

#[tokio::test]
async fn names_with_a_reserved_prefix_are_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    for given in ["redquorum:node", "redisson_lock_token:{a}", "redisson_lock__channel:{a}"] {
        let error = refused_lock(quorum.red_lock(given)).await;
        let ConfigError::Resource(InvalidResource::Reserved { given: name, .. }) = &error else {
            panic!("{error:?}")
        };
        assert_eq!(&**name, given);
        let message = format!(
            "the resource name {given:?} is reserved: expected one that does not begin with \"redquorum:\", \
             \"redisson_lock_token:\" or \"redisson_lock__channel:\""
        );
        assert_eq!(error.to_string(), message);
    }
}

#[tokio::test]
async fn invalid_names_of_resources_and_quorums_are_refused() {
    let quorum = Quorum::in_memory(3).unwrap();
    let empty = refused_lock(quorum.red_lock("")).await;
    assert_eq!(empty, ConfigError::Resource(InvalidResource::Empty));
    assert_eq!(empty.to_string(), "a resource without a name: expected 1 to 512 bytes");
    for length in [513, 100_000] {
        let error = refused_lock(quorum.red_lock(vec![b'x'; length])).await;
        let ConfigError::Resource(InvalidResource::TooLong { len, max, .. }) = error else {
            panic!("{error:?}")
        };
        assert_eq!((len, max), (length, 512));
        assert_eq!(error.to_string(), format!("a resource name of {length} bytes: expected at most 512"));
    }
    for (name, shown) in [("", "\"\""), ("a b", "a b"), ("a\nb", "***"), ("späte", "späte"), ("a/b", "***")]
    {
        let error = refused(three_nodes().name(name)).await;
        let text = format!("name is {shown}: expected 1 to 64 letters, digits, '-', '_' or '.'");
        assert_eq!(error.to_string(), text);
    }
    let long = refused(three_nodes().name("x".repeat(65))).await;
    assert_out_of_range(&long, "name", "***", "1 to 64 letters, digits, '-', '_' or '.'");
}

/// A url may hold a password. In these cases the url is in the place of a name, a label, a path or a token.
#[tokio::test]
async fn a_misplaced_url_is_refused_without_its_text() {
    let quorum = Quorum::in_memory(3).unwrap();
    for url in ["redis://:secret@10.0.0.1", "rediss://me:secret@a:1/0", "me:secret@10.0.0.1", ":secret@a"] {
        let mut refusals = vec![
            refused(three_nodes().name(url)).await,
            refused(three_nodes().label(url)).await,
            refused_lock(quorum.red_lock(format!("redquorum:{url}"))).await,
        ];
        let Err(Error::Config(twice)) = quorum.multi_lock([url, url]).lock().await else { panic!("{url}") };
        refusals.push(twice);
        let Err(Error::Config(file)) = settings::load(Some(Path::new(url))) else { panic!("{url}") };
        refusals.push(file);
        for refusal in refusals {
            let texts = [refusal.to_string(), format!("{refusal:?}")];
            assert!(texts.iter().all(|text| text.contains("***") && !text.contains("secret")), "{texts:?}");
        }
        let token = url.parse::<FencingToken>().unwrap_err();
        let texts = [token.to_string(), format!("{token:?}")];
        assert!(texts.iter().all(|text| text.contains("***") && !text.contains("secret")), "{texts:?}");
    }
    let bare = refused(three_nodes().label("redis://10.0.0.1")).await;
    assert_eq!(bare.to_string(), "label is ***: expected 1 to 48 bytes of characters that print, and no url");
}

#[tokio::test]
async fn labels_that_do_not_print_as_one_line_are_refused() {
    for (label, shown) in [("", "\"\""), ("a\nb", "***"), ("a\u{202e}b", "***"), (&*"x".repeat(49), "***")] {
        let error = refused(three_nodes().label(label)).await;
        let text = format!("label is {shown}: expected 1 to 48 bytes of characters that print, and no url");
        assert_eq!(error.to_string(), text);
    }
    let cluster = MemoryCluster::new(3);
    let [one, other] = ["web 7 (blue)", "x/y"].map(|label| {
        let builder = Quorum::builder().label(label);
        builder.connect_in_memory(&cluster).unwrap()
    });
    let held = one.red_lock("r").lock().await.unwrap();
    assert_eq!(held.id().label(), Some("web 7 (blue)"));
    assert!(other.red_lock("r").try_lock().await.unwrap().is_none());
    let inspection = other.inspect("r").await.unwrap().to_string();
    assert_eq!(
        inspection.matches("held by web 7 (blue)/").count(),
        3,
        "not all nodes name the holder: {inspection}"
    );
    held.unlock().await.unwrap();
    assert_eq!(other.red_lock("r").lock().await.unwrap().id().label(), Some("x/y"));
}

/// The largest accepted values work, and so does `Duration::MAX` where a setting has no limit.
#[tokio::test]
async fn values_at_the_limits_are_accepted() {
    let quorum = Quorum::in_memory(64).unwrap();
    let lock = quorum.red_lock([b'x'; 512]).options(
        LockOptions::new().ttl(millis(60_000)).hold_at_most(Duration::MAX).quorum_timeout(Duration::MAX),
    );
    let guard = lock.try_lock_for(Duration::MAX).await.unwrap().expect("the resource is held");
    assert!(guard.is_valid() && guard.remaining() <= millis(60_000));
    guard.unlock().await.unwrap();
    let shortest = quorum.red_lock("r").options(LockOptions::new().ttl(millis(4)).node_timeout(millis(3)));
    drop(shortest.try_lock().await);
}

#[test]
fn a_client_without_a_runtime_is_refused() {
    for outcome in [Quorum::in_memory(3), futures::executor::block_on(three_nodes().connect())] {
        let Err(Error::Config(error)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(
            error.to_string(),
            "no runtime: the client's tasks need a tokio runtime: connect inside of one, or use `connect_blocking`"
        );
    }
}
