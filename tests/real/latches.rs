//! Latches on real servers: arrivals open a latch although a minority of servers hangs or loses data, a wrong count or
//! a key of another type is an error, and all arrivals of the largest latch are counted.

use std::time::Duration;

use futures::future::{join_all, try_join_all};
use redis::Value;
use redquorum::{Error, error::ConfigError};
use redquorum_tests::{Cluster, eventually};

use super::servers::{SOON, builder, client};

#[tokio::test]
async fn a_latch_opens_although_one_server_hangs_and_one_loses_its_data() {
    let cluster = Cluster::start(5).await;
    let clients = join_all((0..8).map(|_| client(&cluster))).await;
    let latches: Vec<_> = clients.iter().map(|quorum| quorum.latch("{l}:1", 8)).collect();
    let waiting = try_join_all(latches.iter().map(|latch| latch.wait_for(SOON)));
    let arriving = async {
        for (number, latch) in latches.iter().enumerate() {
            latch.arrive().await?;
            match number {
                2 => cluster.servers()[0].freeze().await,
                4 => assert_eq!(cluster.servers()[1].command(&["FLUSHALL"]).await, Value::Okay),
                _ => {}
            }
            if number < 7 {
                // After both faults, only three of five servers have all arrivals. Therefore each of them has to
                // answer.
                eventually(SOON, "the latch counts the arrivals", async || {
                    latch.arrivals().await == Ok(number as u32 + 1)
                })
                .await;
            }
        }
        Ok::<_, Error>(())
    };
    let (opened, ()) = tokio::try_join!(waiting, arriving).unwrap();
    assert_eq!(opened, [true; 8]);
    cluster.servers()[0].thaw().await;
    assert!(client(&cluster).await.latch("{l}:1", 8).wait_for(SOON).await.unwrap());
}

#[tokio::test]
async fn another_count_and_a_key_of_another_type_are_errors() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    quorum.latch("l", 3).retention(Duration::from_secs(60)).arrive_as("a").await.unwrap();
    let other = quorum.latch("l", 2).wait_for(SOON).await.unwrap_err();
    let Error::Config(error) = &other else { panic!("{other:?}") };
    assert!(matches!(error, ConfigError::CountMismatch { given: 2, recorded: 3, .. }), "{error:?}");
    for server in cluster.servers() {
        let ttl = server.command(&["PTTL", "redquorum:latch:{l}"]).await;
        assert!(matches!(ttl, Value::Int(1..=60_000)), "{ttl:?}");
        server.command(&["SET", "redquorum:latch:{text}", "a"]).await;
    }
    let wrong = quorum.latch("text", 1).arrivals().await.unwrap_err();
    assert!(wrong.to_string().contains("WRONGTYPE"), "{wrong}");
}

/// The longest possible answers: all but one of the 1,024 ids have the maximum length.
#[tokio::test]
async fn a_thousand_arrivals_with_long_ids_are_counted() {
    let cluster = Cluster::start(3).await;
    let quorum = client(&cluster).await;
    let latch = quorum.latch("l", 1_024);
    for from in (0..1_023).step_by(64) {
        let ids = (from..(from + 64).min(1_023)).map(|number| format!("{number:048}"));
        try_join_all(ids.map(|id| latch.arrive_as(id))).await.unwrap();
    }
    let other = client(&cluster).await;
    assert_eq!(other.latch("l", 1_024).arrivals().await.unwrap(), 1_023);
    assert!(!other.latch("l", 1_024).wait_for(Duration::from_millis(500)).await.unwrap());
    latch.arrive_as("the last").await.unwrap();
    assert!(other.latch("l", 1_024).wait_for(SOON).await.unwrap());
}

/// Each answer of a node lists the arrivals so far, so the nodes send the longest ids a half million times. On a machine
/// under load, the client may read these answers for longer than the default quorum timeout, which is one ttl.
#[tokio::test]
async fn all_arrivals_succeed_if_one_client_arrives_a_thousand_times_at_once() {
    let cluster = Cluster::start(3).await;
    let quorum = builder(&cluster).max_ttl(SOON * 30).ttl(SOON * 30).connect().await.unwrap();
    let latch = quorum.latch("l", 1_024);
    let ids = (0..1_024).map(|number| format!("{number:048}"));
    let arrivals = join_all(ids.map(|id| latch.arrive_as(id))).await;
    let errors: Vec<_> = arrivals.into_iter().filter_map(Result::err).collect();
    assert!(errors.is_empty(), "{} arrivals failed, the first with: {}", errors.len(), errors[0]);
    assert!(latch.wait_for(SOON).await.unwrap());
}
