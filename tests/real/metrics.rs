//! Metrics on real servers, for events that nodes in memory do not have: broken connections, quarantines, refused
//! notices and unconfirmed unlocks. One test compares all recorded metrics with the documented metrics.

use std::{collections::BTreeMap, time::Duration};

use redquorum::{
    LockOptions, Quorum, QuorumBuilder,
    metrics::{ALL, Kind},
};
use redquorum_tests::{Cluster, Server, eventually};
use tokio::runtime::{Builder, Runtime};

use crate::figures::{
    CONNECTIONS, DIALS, Figures, MARGIN, NOTICES_REFUSED, OLDEST_CALL, QUARANTINED, RECONNECTS,
    UNLOCKS_PENDING, VOTES, run_with_recorder,
};

/// The deadline of an effect that has to happen at once, on a machine under load.
const SOON: Duration = Duration::from_secs(20);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Returns settings that admit new nodes.
fn builder(cluster: &Cluster) -> QuorumBuilder {
    Quorum::builder().nodes(cluster.urls()).admit_new_nodes().ttl(Duration::from_secs(3))
}

/// Waits until the metric of this node has the value.
async fn wait_for_value(figures: &Figures, name: &str, server: &Server, value: f64) {
    let node = server.address();
    let what = format!("{name} of {node} is {value}");
    eventually(SOON, &what, async || figures.sum(name, &[("node", &node)]) == value).await;
}

#[test]
fn a_server_that_restarts_empty_shows_in_connections_and_quarantine() {
    run_with_recorder(&runtime(), async |figures| {
        let cluster = Cluster::start(3).await;
        // The next client does not admit new nodes, so it treats an empty server as one that lost its data.
        builder(&cluster).connect().await.unwrap().shutdown().await;
        let builder = Quorum::builder().nodes(cluster.urls());
        let quorum = builder.connect().await.unwrap();
        let server = cluster.server(0);
        wait_for_value(&figures, CONNECTIONS, server, 1.0).await;
        wait_for_value(&figures, QUARANTINED, server, 0.0).await;
        server.kill().await;
        wait_for_value(&figures, CONNECTIONS, server, 0.0).await;
        assert_eq!(figures.sum(CONNECTIONS, &[]), 2.0, "another connection has ended");
        let node = server.address();
        let dials = |outcome| figures.sum(DIALS, &[("node", &node), ("outcome", outcome)]);
        eventually(SOON, "the dead server refuses a dial", async || dials("unreachable") >= 1.0).await;
        server.restart_empty().await;
        wait_for_value(&figures, CONNECTIONS, server, 1.0).await;
        wait_for_value(&figures, RECONNECTS, server, 1.0).await;
        wait_for_value(&figures, QUARANTINED, server, 1.0).await;
        assert_eq!(
            dials("connected"),
            2.0 + 1.0,
            "two connections of this client, and one of the first client"
        );
        quorum.red_lock("lock:r").lock().await.unwrap().unlock().await.unwrap();
        assert_eq!(figures.sum(QUARANTINED, &[]), 1.0, "another node is in quarantine");
        assert!(figures.sum(VOTES, &[("answer", "abstained")]) <= 1.0);
        quorum.shutdown().await;
        assert_eq!(figures.sum(CONNECTIONS, &[]), 0.0);
    });
}

#[test]
fn a_hanging_server_shows_in_the_age_of_the_oldest_call() {
    run_with_recorder(&runtime(), async |figures| {
        let cluster = Cluster::start(3).await;
        let quorum = builder(&cluster).connect().await.unwrap();
        let server = cluster.server(0);
        assert_eq!(figures.sum(OLDEST_CALL, &[]), 0.0);
        server.freeze().await;
        let guard = quorum.red_lock("lock:r").lock().await.unwrap();
        let grown = async || figures.sum(OLDEST_CALL, &[]) >= 2.0;
        eventually(SOON, "the age of the oldest call grows", grown).await;
        server.thaw().await;
        wait_for_value(&figures, OLDEST_CALL, server, 0.0).await;
        guard.unlock().await.unwrap();
        quorum.shutdown().await;
    });
}

#[test]
fn a_notice_that_a_server_refuses_is_counted_and_changes_no_unlock() {
    run_with_recorder(&runtime(), async |figures| {
        let cluster = Cluster::start(3).await;
        let server = cluster.server(0);
        server.command(&["ACL", "SETUSER", "default", "resetchannels"]).await;
        let quorum = builder(&cluster).connect().await.unwrap();
        for _ in 0..2 {
            let replies = quorum.red_lock("lock:r").lock().await.unwrap().unlock().await.unwrap();
            assert!(replies.has_quorum(), "{replies}");
        }
        let node = server.address();
        let refused = |command| figures.sum(NOTICES_REFUSED, &[("node", &node), ("command", command)]);
        eventually(SOON, "both notices are counted", async || refused("publish") == 2.0).await;
        assert_eq!(figures.sum(NOTICES_REFUSED, &[("command", "publish")]), 2.0);
        assert_eq!(figures.sum(NOTICES_REFUSED, &[("command", "unsubscribe")]), 0.0);
        // Two servers confirm an unlock, so the third may still have to answer when `unlock` returns.
        eventually(SOON, "every server has confirmed both unlocks", async || {
            figures.sum(UNLOCKS_PENDING, &[]) == 0.0
        })
        .await;
        quorum.shutdown().await;
    });
}

#[test]
fn an_unlock_is_pending_until_the_server_has_confirmed_it() {
    run_with_recorder(&runtime(), async |figures| {
        let cluster = Cluster::start(3).await;
        let quorum = builder(&cluster).connect().await.unwrap();
        let guard = quorum.red_lock("lock:r").lock().await.unwrap();
        let frozen = cluster.server(2);
        frozen.freeze().await;
        guard.unlock().await.unwrap();
        wait_for_value(&figures, UNLOCKS_PENDING, frozen, 1.0).await;
        frozen.thaw().await;
        wait_for_value(&figures, UNLOCKS_PENDING, frozen, 0.0).await;
        assert_eq!(figures.sum(UNLOCKS_PENDING, &[]), 0.0);
        quorum.shutdown().await;
    });
}

/// The recorded names, types and labels equal those of `metrics::ALL`.
#[test]
fn a_run_records_exactly_the_documented_metrics() {
    run_with_recorder(&runtime(), async |figures| {
        let cluster = Cluster::start(3).await;
        let quorum = builder(&cluster).connect().await.unwrap();
        let renewed = quorum
            .red_lock("lock:renewed")
            .options(LockOptions::new().ttl(Duration::from_millis(600)))
            .lock()
            .await
            .unwrap();
        let renewals = format!("{MARGIN}_count");
        eventually(SOON, "the lease is renewed", async || figures.sum(&renewals, &[]) >= 1.0).await;
        renewed.unlock().await.unwrap();
        drop(quorum.red_lock("lock:dropped").lock().await.unwrap());
        let lost = quorum
            .red_lock("lock:lost")
            .options(LockOptions::new().ttl(Duration::from_millis(200)).without_renewal());
        drop(lost.lock().await.unwrap().lost().await);
        let latch = quorum.latch("open", 1);
        latch.arrive().await.unwrap();
        latch.wait().await.unwrap();
        quorum.shutdown().await;

        let recorded = figures.recorded();
        let documented: BTreeMap<_, _> = ALL
            .iter()
            .map(|metric| {
                let kind = match metric.kind {
                    Kind::Counter => "counter",
                    Kind::Gauge => "gauge",
                    _ => "summary",
                };
                let labels = metric.labels.iter().map(|label| (*label).to_owned()).collect();
                (metric.name.to_owned(), (kind.to_owned(), labels))
            })
            .collect();
        assert_eq!(recorded, documented);
        let described = figures.page();
        for metric in ALL {
            let help = format!("# HELP {} {}", metric.name, metric.help);
            assert!(described.contains(&help), "{help} is not in {described}");
        }
    });
}
