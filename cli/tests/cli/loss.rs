//! The end of `redquorum run` and of its command if the lease is lost or is not renewed.

use std::{
    cell::Cell,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redquorum::unstable_redis::redis::cmd;
use redquorum_tests::{Cluster, Server, eventually};

use super::{
    redquorum::{TIME_LIMIT, exit_code, run, stderr, wait_for_output, wait_until_free},
    scratch::Scratch,
};

const TTL: Duration = Duration::from_secs(3);

/// The minimum time by which a lease ends before its keys: a hundredth of the ttl, and 2 ms.
const LEASE_ENDS_BEFORE_KEYS: Duration = Duration::from_millis(32);

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

async fn remaining(server: &Server, resource: &str) -> Duration {
    let remaining: i64 = server.query(cmd("PTTL").arg(resource)).await;
    Duration::from_millis(remaining.try_into().unwrap_or(0))
}

/// Freezes two of three servers directly after a renewal. Returns the latest possible end of the
/// lease's validity: the end of the keys on the frozen servers, less drift and margin.
async fn freeze_a_majority(cluster: &Cluster, resource: &str) -> Duration {
    let [first, second] = [cluster.server(0), cluster.server(1)];
    let before = Cell::new(remaining(first, resource).await);
    eventually(TIME_LIMIT, "the lease is renewed", async || {
        let now = remaining(first, resource).await;
        now > before.replace(now)
    })
    .await;
    let mut end = Duration::MAX;
    for server in [first, second] {
        let before_query = now();
        end = end.min(before_query + remaining(server, resource).await);
        server.freeze().await;
    }
    assert!(
        now() + TTL / 2 < end,
        "the machine is too slow: the next renewal may have been sent before the freeze"
    );
    end - LEASE_ENDS_BEFORE_KEYS
}

/// Returns a script that writes the time to `notes` every few milliseconds, and handles SIGTERM by
/// `on_term`.
fn clock_script(scratch: &Scratch, on_term: &str) -> String {
    format!("trap '{on_term}' TERM; while :; do date +%s%N >> {}; sleep 0.005; done", scratch.file("notes"))
}

/// Returns the last time that the command has written.
fn last_note(scratch: &Scratch) -> Duration {
    let notes = scratch.read("notes");
    let nanos = notes.lines().filter_map(|note| note.parse().ok()).max().unwrap();
    Duration::from_nanos(nanos)
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_before_the_lease_ends() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let run = run(&cluster, &["job", "--ttl", "3s"], &clock_script(&scratch, "")).spawn().unwrap();
    scratch.lines("notes", 1).await;
    let end = freeze_a_majority(&cluster, "job").await;
    let run = wait_for_output(run).await;
    assert_eq!(exit_code(&run), 79, "{}", stderr(&run));
    let last = last_note(&scratch);
    assert!(last < end, "the command ran for {:?} without the lock", last - end);
    assert!(last + TTL / 6 > end, "the command was killed {:?} before the end of the lease", end - last);
    let messages = stderr(&run);
    let (term, kill) = (messages.find("SIGTERM").unwrap(), messages.find("SIGKILL").unwrap());
    assert!(term < kill, "{messages}");
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    wait_until_free(cluster.servers(), "job").await;
}

#[tokio::test]
async fn a_command_gets_sigterm_before_the_time_of_kill_after() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let on_term = format!("date +%s%N > {}; exit 0", scratch.file("asked"));
    let arguments = ["job", "--ttl", "3s", "--kill-after", "1s"];
    let run = run(&cluster, &arguments, &clock_script(&scratch, &on_term)).spawn().unwrap();
    scratch.lines("notes", 1).await;
    let end = freeze_a_majority(&cluster, "job").await;
    let run = wait_for_output(run).await;
    assert_eq!(exit_code(&run), 79, "{}", stderr(&run));
    let asked = Duration::from_nanos(scratch.read("asked").trim().parse().unwrap());
    assert!(asked < end - Duration::from_secs(1), "SIGTERM only {:?} before the end", end - asked);
    assert!(!stderr(&run).contains("SIGKILL"), "{}", stderr(&run));
}

#[tokio::test]
async fn all_processes_of_a_command_that_ends_at_sigterm_are_killed() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    // The inner shell ignores SIGTERM, and the outer shell ends at SIGTERM.
    let script = format!(
        "(trap '' TERM; {}) & trap 'exit 0' TERM; wait",
        clock_script(&scratch, "").replacen("trap '' TERM; ", "", 1)
    );
    let run = run(&cluster, &["job", "--ttl", "3s"], &script).spawn().unwrap();
    scratch.lines("notes", 1).await;
    let end = freeze_a_majority(&cluster, "job").await;
    let run = wait_for_output(run).await;
    assert_eq!(exit_code(&run), 79, "{}", stderr(&run));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(last_note(&scratch) < end);
}

#[tokio::test]
async fn on_loss_kill_kills_before_the_lease_ends() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let on_term = format!("touch {}", scratch.file("asked"));
    let arguments = ["job", "--ttl", "3s", "--on-loss", "kill"];
    let run = run(&cluster, &arguments, &clock_script(&scratch, &on_term)).spawn().unwrap();
    scratch.lines("notes", 1).await;
    let end = freeze_a_majority(&cluster, "job").await;
    let run = wait_for_output(run).await;
    assert_eq!(exit_code(&run), 79, "{}", stderr(&run));
    assert!(last_note(&scratch) < end);
    assert!(!scratch.path().join("asked").exists());
}

#[tokio::test]
async fn an_ignored_loss_is_reported_and_the_command_continues() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let go = scratch.file("go");
    let script =
        format!("date +%s%N >> {}; until [ -e {go} ]; do sleep 0.02; done; exit 5", scratch.file("notes"));
    let mut run = run(&cluster, &["job", "--ttl", "1s", "--on-loss", "ignore"], &script).spawn().unwrap();
    scratch.lines("notes", 1).await;
    cluster.server(0).command(&["PING"]).await;
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(run.try_wait().unwrap().is_none(), "the command has ended");
    std::fs::write(&go, "").unwrap();
    let run = wait_for_output(run).await;
    assert_eq!(exit_code(&run), 5, "{}", stderr(&run));
    assert!(stderr(&run).contains("continues without the lease"), "{}", stderr(&run));
}

#[tokio::test]
async fn a_command_with_a_revoked_lock_is_killed_at_the_next_renewal() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let run = run(&cluster, &["job", "--ttl", "3s"], &clock_script(&scratch, "")).spawn().unwrap();
    scratch.lines("notes", 1).await;
    let quorum = redquorum::Quorum::builder().nodes(cluster.urls()).connect().await.unwrap();
    redquorum::admin::force_unlock(&quorum, "job").await.unwrap();
    let unlocked = now();
    let run = wait_for_output(run).await;
    assert_eq!(exit_code(&run), 79, "{}", stderr(&run));
    assert!(last_note(&scratch) < unlocked + TTL / 2, "a renewal is due after a third of the ttl");
    quorum.shutdown().await;
}
