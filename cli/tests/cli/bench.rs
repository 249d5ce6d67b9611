//! `redquorum bench`.

use redquorum::{Quorum, admin};
use redquorum_tests::{Cluster, eventually};
use rustix::process::Signal;

use super::redquorum::{
    TIME_LIMIT, command_on, exit_code, json, output, send_signal, stderr, stdout, wait_for_output,
};

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
    let node = |index: usize| cluster.server(index).address();
    assert_eq!(first[..6], ["what", "lock", "unlock", &*node(0), &*node(1), &*node(2)], "{text}");
    assert!(
        text.trim_end().lines().last().unwrap().contains("locks and unlocks per second, by 1 task in"),
        "{text}"
    );
}

/// Returns the largest memory that a process has used, in MiB.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
}

/// A thousand tasks with two histograms each would take more than 200 MiB.
#[tokio::test]
async fn a_signal_ends_a_benchmark_of_many_tasks_that_share_their_histograms() {
    let cluster = initialised_cluster().await;
    let arguments = ["--json", "bench", "--tasks", "1000", "--duration", "1h"];
    let bench = command_on(&cluster, arguments).spawn().unwrap();
    let pid = bench.id().unwrap();
    eventually(TIME_LIMIT, "every task has locked", async || {
        let keys = cluster.server(0).keys().await;
        keys.iter().filter(|key| key.starts_with("redisson_lock_token:")).count() == 1000
    })
    .await;
    let memory = peak_memory(pid);
    send_signal(pid, Signal::TERM);
    let ended = wait_for_output(bench).await;
    assert_eq!(exit_code(&ended), 0, "{}", stderr(&ended));
    assert!(json(&ended)[0]["lock"]["count"].as_u64().unwrap() >= 1000, "{}", stdout(&ended));
    assert!(memory < 150, "{memory} MiB");
    let keys = cluster.server(0).keys().await;
    assert!(keys.iter().all(|key| key.starts_with("redquorum:")), "{keys:?}");
}

#[tokio::test]
async fn a_benchmark_without_votes_counts_failures_and_fails() {
    let cluster = Cluster::start(3).await;
    let bench = output(command_on(&cluster, ["bench", "--tasks", "2", "--duration", "200ms"])).await;
    assert_eq!(exit_code(&bench), 69, "{}", stdout(&bench));
    assert!(stdout(&bench).contains("lock: nodes in quarantine: "), "{}", stdout(&bench));
    assert!(stderr(&bench).contains("redquorum doctor"), "{}", stderr(&bench));
    assert!(stderr(&bench).contains("redquorum: the last failure: no quorum for "), "{}", stderr(&bench));
}

#[tokio::test]
async fn the_missing_answers_of_a_node_have_a_reason() {
    let cluster = initialised_cluster().await;
    cluster.server(2).kill().await;
    let bench = output(command_on(&cluster, ["bench", "--tasks", "2", "--duration", "300ms"])).await;
    assert_eq!(exit_code(&bench), 0, "{}", stderr(&bench));
    let reason = format!("{}: unreachable: ", cluster.server(2).address());
    assert!(stdout(&bench).contains(&reason), "{}", stdout(&bench));
}
