//! A command does not outlive the process that keeps its lease.

use redquorum_tests::{Cluster, eventually};
use rustix::process::Signal;

use super::{
    redquorum::{SOON, code, is_free, output, run, send, state, stderr},
    scratch::Scratch,
};

#[tokio::test]
async fn a_killed_redquorum_takes_the_group_of_its_command_along() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let (first, second) = (scratch.file("first"), scratch.file("second"));
    let inner = format!("echo $$ > {second}; while :; do sleep 0.02; done");
    let script = format!("trap \"\" TERM HUP; echo $$ > {first}; sh -c '{inner}'; true");
    let run = run(&cluster, &["job"], &script).spawn().unwrap();
    let command: u32 = scratch.lines("first", 1).await[0].parse().unwrap();
    let its_child: u32 = scratch.lines("second", 1).await[0].parse().unwrap();
    assert!(state(command).is_some() && state(its_child).is_some());
    send(run.id().unwrap(), Signal::KILL);
    eventually(SOON, "the command is gone", async || state(command).is_none()).await;
    eventually(SOON, "so is what it has started", async || state(its_child).is_none()).await;
}

#[tokio::test]
async fn the_group_of_a_command_that_ended_by_itself_lives_on() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!("sleep 1000 > /dev/null 2>&1 & echo $! > {}", scratch.file("left"));
    let run = output(run(&cluster, &["job"], &script)).await;
    assert_eq!(code(&run), 0, "{}", stderr(&run));
    is_free(cluster.servers(), "job").await;
    let left: u32 = scratch.lines("left", 1).await[0].parse().unwrap();
    assert!(state(left).is_some(), "as with flock: the lock is for the command alone");
    send(left, Signal::KILL);
}
