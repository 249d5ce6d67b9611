//! A command does not outlive the process that keeps its lease.

use rustix::process::Signal;

use super::{
    redquorum::{SOON, run, send, state},
    scratch::Scratch,
};
use crate::support::{Cluster, eventually};

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_whose_redquorum_is_killed_is_killed_with_it() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let script =
        format!("trap '' TERM HUP; echo $$ > {}; while :; do sleep 0.02; done", scratch.file("ready"));
    let run = run(&cluster, &["job"], &script).spawn().unwrap();
    let child: u32 = scratch.lines("ready", 1).await[0].parse().unwrap();
    assert!(state(child).is_some());
    send(run.id().unwrap(), Signal::KILL);
    eventually(SOON, "the command is gone", async || state(child).is_none()).await;
}
