//! `redquorum top` on a terminal.

use redquorum::{Quorum, admin};
use redquorum_tests::{Cluster, eventually};
use rustix::process::Signal;
use tokio::process::Child;

use super::{
    pty::Pty,
    redquorum::{TIME_LIMIT, command_on, send_signal, without_patience},
};

/// Waits for the end of `top`, and returns its exit status.
async fn status(mut top: Child) -> Option<i32> {
    tokio::time::timeout(TIME_LIMIT, top.wait())
        .await
        .expect("top ends within the time limit")
        .unwrap()
        .code()
}

/// Starts three initialised nodes, and connects a client.
async fn cluster_with_lock_client() -> (Cluster, Quorum) {
    let cluster = Cluster::start(3).await;
    let builder = || Quorum::builder().nodes(cluster.urls());
    admin::init(&builder()).await.unwrap();
    let quorum = builder().label("web-1").connect().await.unwrap();
    (cluster, quorum)
}

#[tokio::test]
async fn top_restores_the_terminal_at_each_end() {
    let (cluster, quorum) = cluster_with_lock_client().await;
    let _held = quorum.red_lock("job").lock().await.unwrap();
    for (end, exit) in [("q", 0), ("\u{1b}", 0), ("\u{3}", 0), ("INT", 130), ("TERM", 143), ("HUP", 129)] {
        let pty = Pty::open(80);
        let before = pty.settings();
        let top = pty.spawn(command_on(&cluster, ["top", "--interval", "50ms"]));
        pty.wait_until_shown("job      held  web-1").await;
        assert_ne!(pty.settings(), before, "top has not changed the terminal settings");
        assert!(pty.screen().screen().alternate_screen());
        let signal = [("INT", Signal::INT), ("TERM", Signal::TERM), ("HUP", Signal::HUP)]
            .into_iter()
            .find(|(name, _)| *name == end);
        match signal {
            Some((_, signal)) => send_signal(top.id().unwrap(), signal),
            None => pty.press(end),
        }
        assert_eq!(status(top).await, Some(exit), "{end:?}");
        assert_eq!(pty.settings(), before, "{end:?}");
        eventually(TIME_LIMIT, "the screen is restored", async || {
            let parser = pty.screen();
            let screen = parser.screen();
            !screen.alternate_screen() && !screen.hide_cursor() && screen.contents().trim().is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn an_error_of_top_restores_the_terminal_and_is_readable() {
    let (cluster, quorum) = cluster_with_lock_client().await;
    drop(quorum);
    for server in cluster.servers() {
        server.kill().await;
    }
    let pty = Pty::open(80);
    let before = pty.settings();
    let top = pty.spawn(without_patience(command_on(&cluster, ["top"])));
    assert_eq!(status(top).await, Some(69));
    assert_eq!(pty.settings(), before);
    pty.wait_until_shown("redquorum: no quorum").await;
    assert!(!pty.screen().screen().alternate_screen());
}

#[tokio::test]
async fn top_shows_the_locks_of_the_nodes_that_answer_without_a_quorum() {
    const PARTIAL: &str = "partial list: the nodes that answered are no quorum";
    let (cluster, quorum) = cluster_with_lock_client().await;
    let _held = quorum.red_lock("job").lock().await.unwrap();
    let running = Pty::open(80);
    let top = running.spawn(command_on(&cluster, ["top", "--interval", "50ms"]));
    running.wait_until_shown("job      held  web-1").await;
    cluster.server(2).kill().await;
    running.wait_until_shown(&format!("{}: unreachable", cluster.server(2).address())).await;
    running.wait_until_shown("job      held  web-1").await;
    let shown = running.screen().screen().contents();
    assert!(!shown.contains(PARTIAL), "two of three nodes are a quorum: {shown}");
    cluster.server(1).kill().await;
    running.wait_until_shown(PARTIAL).await;
    running.wait_until_shown("job      unclear").await;
    // The second `top` finds no quorum at its start.
    let late = Pty::open(80);
    let late_top = late.spawn(without_patience(command_on(&cluster, ["top", "--interval", "50ms"])));
    late.wait_until_shown(PARTIAL).await;
    late.wait_until_shown("job      unclear").await;
    for (pty, top) in [(running, top), (late, late_top)] {
        pty.press("q");
        assert_eq!(status(top).await, Some(0));
    }
}

/// The interval is shorter than the second for which a cycle has to last.
#[tokio::test]
async fn top_shows_latches_and_marks_cycles_as_list_does() {
    let (cluster, web) = cluster_with_lock_client().await;
    let job = Quorum::builder().nodes(cluster.urls()).label("job-2").connect().await.unwrap();
    web.latch("deploy", 3).arrive().await.unwrap();
    let [a, b] = [web.red_lock("a").lock().await.unwrap(), job.red_lock("b").lock().await.unwrap()];
    cluster.server(2).kill().await;
    let pty = Pty::open(80);
    let top = pty.spawn(command_on(&cluster, ["top", "--interval", "50ms"]));
    pty.wait_until_shown("redquorum top: 2 locks, 1 latch, 0 waiting").await;
    pty.wait_until_shown("latch deploy closed 1 of 3").await;
    let waiters = [(&web, "b"), (&job, "a")].map(|(quorum, name)| {
        let lock = quorum.red_lock(name);
        tokio::spawn(async move { drop(lock.lock().await) })
    });
    for text in ["held*", "* 2 clients wait for each other: ", "2 waiting"] {
        pty.wait_until_shown(text).await;
    }
    let shown = pty.screen().screen().contents();
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
    drop((a, b));
    eventually(TIME_LIMIT, "the cycle has ended", async || !pty.screen().screen().contents().contains('*'))
        .await;
    pty.press("q");
    assert_eq!(status(top).await, Some(0));
}

#[tokio::test]
async fn signals_and_keys_end_top_on_a_blocked_terminal() {
    let (cluster, quorum) = cluster_with_lock_client().await;
    let _held = quorum.red_lock("job").lock().await.unwrap();
    for (key, exit) in [(None, 143), (Some("q"), 0)] {
        let pty = Pty::open(80);
        let before = pty.settings();
        let top = pty.spawn(command_on(&cluster, ["top", "--interval", "50ms"]));
        pty.wait_until_shown("job      held  web-1").await;
        pty.stop();
        // Each refresh writes to the terminal, because the remaining ttl differs.
        match key {
            None => send_signal(top.id().unwrap(), Signal::TERM),
            Some(key) => pty.press(key),
        }
        assert_eq!(status(top).await, Some(exit), "{key:?}");
        assert_eq!(pty.settings(), before, "{key:?}");
    }
}

#[tokio::test]
async fn top_redraws_after_a_blocked_terminal() {
    let (cluster, quorum) = cluster_with_lock_client().await;
    let held = quorum.red_lock("job").lock().await.unwrap();
    let pty = Pty::open(80);
    let top = pty.spawn(command_on(&cluster, ["top", "--interval", "50ms"]));
    pty.wait_until_shown("job      held  web-1").await;
    pty.stop();
    held.unlock().await.unwrap();
    let _other = quorum.red_lock("other").lock().await.unwrap();
    pty.resume();
    pty.wait_until_shown("other    held  web-1").await;
    assert!(!pty.screen().screen().contents().contains("job "), "{}", pty.screen().screen().contents());
    pty.press("q");
    assert_eq!(status(top).await, Some(0));
}

#[tokio::test]
async fn logs_are_written_after_the_screen_of_top() {
    let (cluster, quorum) = cluster_with_lock_client().await;
    let _held = quorum.red_lock("job").lock().await.unwrap();
    let pty = Pty::open(80);
    let top = pty.spawn(command_on(&cluster, ["-vvv", "top", "--interval", "50ms"]));
    pty.wait_until_shown("job      held  web-1").await;
    cluster.server(0).kill().await;
    let node = cluster.server(0).address();
    // The screen shows the failed dial only after its log was written.
    pty.wait_until_shown(&format!("{node}: unreachable")).await;
    let shown = pty.screen().screen().contents();
    pty.press("q");
    assert_eq!(status(top).await, Some(0));
    let ends = |text: &str| text.contains("\u{1b}[?1049l") && text.ends_with("shutdown complete\n");
    eventually(TIME_LIMIT, "all output has been read", async || ends(&pty.text())).await;
    let written = pty.text();
    let (_, drawn) = written.split_once("\u{1b}[?1049h").unwrap();
    let (drawn, after) = drawn.split_once("\u{1b}[?1049l").unwrap();
    let log = "redquorum::";
    assert!(!drawn.contains(log), "the screen has logs: {shown}");
    assert!(after.contains(log) && after.contains("node unreachable"), "after it: {after}");
    // Colours separate the name of the field from the value.
    assert!(after.contains(&node), "after it: {after}");
}
