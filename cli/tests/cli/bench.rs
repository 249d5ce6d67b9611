//! `redquorum bench`.

use redquorum::{Quorum, admin};
use redquorum_tests::Cluster;

use super::redquorum::{command_on, exit_code, json, output, stderr, stdout};

/// Starts three servers, and initialises them as a quorum.
async fn initialised_cluster() -> Cluster {
    let cluster = Cluster::start(3).await;
    admin::init(&Quorum::builder().nodes(cluster.urls())).await.unwrap();
    cluster
}

#[tokio::test]
async fn a_benchmark_measures_locks_and_leaves_no_key() {
    let cluster = initialised_cluster().await;
    let bench =
        output(command_on(&cluster, ["--json", "bench", "--tasks", "3", "--duration", "300ms"])).await;
    assert_eq!(exit_code(&bench), 0, "{}", stderr(&bench));
    assert!(stderr(&bench).contains("3 tasks load the servers"), "{}", stderr(&bench));
    let report = &json(&bench)[0];
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    assert!(number(&report["cycles_per_second"]) > 0.0, "{report}");
    for operation in ["lock", "unlock"] {
        let times = ["median_ms", "p90_ms", "p99_ms", "max_ms"].map(|name| number(&report[operation][name]));
        assert!(times[0] > 0.0 && times.is_sorted(), "{operation}: {times:?}");
    }
    assert_eq!(report["nodes"].as_array().unwrap().len(), 3);
    for server in cluster.servers() {
        let keys = server.keys().await;
        let expected = ["redquorum:dirty", "redquorum:node"];
        assert!(keys.iter().all(|key| expected.contains(&&**key)), "{keys:?}");
    }
}

#[tokio::test]
async fn the_table_of_a_benchmark_lists_locks_unlocks_and_nodes() {
    let cluster = initialised_cluster().await;
    cluster.server(2).kill().await;
    let bench = output(command_on(&cluster, ["bench", "--tasks", "1", "--duration", "200ms"])).await;
    assert_eq!(exit_code(&bench), 0, "{}", stderr(&bench));
    let text = stdout(&bench);
    let first: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let node = |index: usize| format!("127.0.0.1:{}", cluster.server(index).port());
    assert_eq!(first[..6], ["what", "lock", "unlock", &*node(0), &*node(1), &*node(2)], "{text}");
    assert!(
        text.trim_end().lines().last().unwrap().contains("locks and unlocks per second, by 1 task in"),
        "{text}"
    );
}

#[tokio::test]
async fn a_benchmark_without_votes_counts_failures_and_fails() {
    let cluster = Cluster::start(3).await;
    let bench = output(command_on(&cluster, ["bench", "--tasks", "2", "--duration", "200ms"])).await;
    assert_eq!(exit_code(&bench), 69, "{}", stdout(&bench));
    assert!(stdout(&bench).contains("lock: nodes in quarantine: "), "{}", stdout(&bench));
    assert!(stderr(&bench).contains("redquorum doctor"), "{}", stderr(&bench));
}
