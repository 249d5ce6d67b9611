//! The end of a command whose lease is about to end.

use std::{
    cell::Cell,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use redquorum::unstable_redis::redis::cmd;
use redquorum_tests::{Cluster, Server, eventually};

use super::{
    redquorum::{SOON, code, ended, is_free, run, stderr},
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

/// Freezes two of three servers just after a renewal. Returns the latest end of the validity: the end of
/// the keys on the frozen servers, less the drift.
async fn freeze_a_majority(cluster: &Cluster, resource: &str) -> Duration {
    let [first, second] = [cluster.server(0), cluster.server(1)];
    let before = Cell::new(remaining(first, resource).await);
    eventually(SOON, "it is renewed", async || {
        let now = remaining(first, resource).await;
        now > before.replace(now)
    })
    .await;
    let mut end = Duration::MAX;
    for server in [first, second] {
        let asked = now();
        end = end.min(asked + remaining(server, resource).await);
        server.freeze().await;
    }
    assert!(now() + TTL / 2 < end, "the machine is too slow: the next renewal may have come between");
    end - LEASE_ENDS_BEFORE_KEYS
}

/// Returns a script that notes the time every few milliseconds, and handles SIGTERM with `on_term`.
fn noting(scratch: &Scratch, on_term: &str) -> String {
    format!("trap '{on_term}' TERM; while :; do date +%s%N >> {}; sleep 0.005; done", scratch.file("notes"))
}

/// Returns the last time that the command noted.
fn last_note(scratch: &Scratch) -> Duration {
    let notes = scratch.read("notes");
    let nanos = notes.lines().filter_map(|note| note.parse().ok()).max().unwrap();
    Duration::from_nanos(nanos)
}

#[tokio::test]
async fn a_command_that_ignores_sigterm_is_killed_before_the_lease_ends() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let run = run(&cluster, &["job", "--ttl", "3s"], &noting(&scratch, "")).spawn().unwrap();
    scratch.lines("notes", 1).await;
    let end = freeze_a_majority(&cluster, "job").await;
    let run = ended(run).await;
    assert_eq!(code(&run), 79, "{}", stderr(&run));
    let last = last_note(&scratch);
    assert!(last < end, "it worked for {:?} without the lock", last - end);
    assert!(last + TTL / 6 > end, "it was killed {:?} too early", end - last);
    let said = stderr(&run);
    let (term, kill) = (said.find("SIGTERM").unwrap(), said.find("SIGKILL").unwrap());
    assert!(term < kill, "{said}");
    for server in cluster.some(0..2) {
        server.thaw().await;
    }
    is_free(cluster.servers(), "job").await;
}

#[tokio::test]
async fn a_command_that_handles_sigterm_has_its_grace() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let on_term = format!("date +%s%N > {}; exit 0", scratch.file("asked"));
    let arguments = ["job", "--ttl", "3s", "--kill-after", "1s"];
    let run = run(&cluster, &arguments, &noting(&scratch, &on_term)).spawn().unwrap();
    scratch.lines("notes", 1).await;
    let end = freeze_a_majority(&cluster, "job").await;
    let run = ended(run).await;
    assert_eq!(code(&run), 79, "{}", stderr(&run));
    let asked = Duration::from_nanos(scratch.read("asked").trim().parse().unwrap());
    assert!(asked < end - Duration::from_secs(1), "asked {:?} before the end", end - asked);
    assert!(!stderr(&run).contains("SIGKILL"), "{}", stderr(&run));
}

#[tokio::test]
async fn the_group_of_a_stopped_command_is_killed() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    // The inner shell ignores SIGTERM, and the outer one obeys.
    let script = format!(
        "(trap '' TERM; {}) & trap 'exit 0' TERM; wait",
        noting(&scratch, "").replacen("trap '' TERM; ", "", 1)
    );
    let run = run(&cluster, &["job", "--ttl", "3s"], &script).spawn().unwrap();
    scratch.lines("notes", 1).await;
    let end = freeze_a_majority(&cluster, "job").await;
    let run = ended(run).await;
    assert_eq!(code(&run), 79, "{}", stderr(&run));
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(last_note(&scratch) < end);
}

#[tokio::test]
async fn on_loss_kill_kills_before_the_lease_ends() {
    let cluster = Cluster::start(3).await;
    let scratch = Scratch::new();
    let on_term = format!("touch {}", scratch.file("asked"));
    let arguments = ["job", "--ttl", "3s", "--on-loss", "kill"];
    let run = run(&cluster, &arguments, &noting(&scratch, &on_term)).spawn().unwrap();
    scratch.lines("notes", 1).await;
    let end = freeze_a_majority(&cluster, "job").await;
    let run = ended(run).await;
    assert_eq!(code(&run), 79, "{}", stderr(&run));
    assert!(last_note(&scratch) < end);
    assert!(!scratch.path().join("asked").exists());
}

#[tokio::test]
async fn an_ignored_loss_is_reported_and_the_command_runs_on() {
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
    assert!(run.try_wait().unwrap().is_none(), "it runs on");
    std::fs::write(&go, "").unwrap();
    let run = ended(run).await;
    assert_eq!(code(&run), 5, "{}", stderr(&run));
    assert!(stderr(&run).contains("runs on without it"), "{}", stderr(&run));
}

#[tokio::test]
async fn a_command_with_a_revoked_lock_is_killed_at_the_next_renewal() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let run = run(&cluster, &["job", "--ttl", "3s"], &noting(&scratch, "")).spawn().unwrap();
    scratch.lines("notes", 1).await;
    let quorum = redquorum::Quorum::builder().nodes(cluster.urls()).connect().await.unwrap();
    redquorum::admin::force_unlock(&quorum, "job").await.unwrap();
    let taken = now();
    let run = ended(run).await;
    assert_eq!(code(&run), 79, "{}", stderr(&run));
    assert!(last_note(&scratch) < taken + TTL / 2, "a renewal is due after a third of the ttl");
    quorum.shutdown().await;
}
