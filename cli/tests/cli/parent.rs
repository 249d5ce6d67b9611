//! The processes of a command after the end of its `redquorum run`.

use redquorum_tests::{Cluster, eventually};
use rustix::process::Signal;

use super::{
    redquorum::{TIME_LIMIT, exit_code, output, process_state, run, send_signal, stderr, wait_until_free},
    scratch::Scratch,
};

#[tokio::test]
async fn the_process_group_of_the_command_is_killed_if_redquorum_is_killed() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let (first, second) = (scratch.file("first"), scratch.file("second"));
    let inner = format!("echo $$ > {second}; while :; do sleep 0.02; done");
    let script = format!("trap \"\" TERM HUP; echo $$ > {first}; sh -c '{inner}'; true");
    let run = run(&cluster, &["job"], &script).spawn().unwrap();
    let command: u32 = scratch.lines("first", 1).await[0].parse().unwrap();
    let grandchild: u32 = scratch.lines("second", 1).await[0].parse().unwrap();
    assert!(process_state(command).is_some() && process_state(grandchild).is_some());
    send_signal(run.id().unwrap(), Signal::KILL);
    eventually(TIME_LIMIT, "the command has ended", async || process_state(command).is_none()).await;
    eventually(TIME_LIMIT, "the process that the command started has ended", async || {
        process_state(grandchild).is_none()
    })
    .await;
}

#[tokio::test]
async fn processes_that_a_command_leaves_behind_are_not_killed() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script = format!("sleep 1000 > /dev/null 2>&1 & echo $! > {}", scratch.file("left"));
    let run = output(run(&cluster, &["job"], &script)).await;
    assert_eq!(exit_code(&run), 0, "{}", stderr(&run));
    wait_until_free(cluster.servers(), "job").await;
    let left: u32 = scratch.lines("left", 1).await[0].parse().unwrap();
    assert!(process_state(left).is_some(), "the lock protects only the command, as with flock");
    send_signal(left, Signal::KILL);
}
