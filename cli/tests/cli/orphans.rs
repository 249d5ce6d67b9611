//! The command as the first process of a container, which has to reap orphaned processes and to end at signals.

use std::process::Stdio;

use redquorum_tests::{Cluster, eventually};
use rustix::process::Signal;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::{
    redquorum::{
        TIME_LIMIT, command_admitting_new_nodes, command_on, exit_code, send_signal, stderr, wait_for_output,
    },
    scratch::Scratch,
};

/// Returns the command as the first process of a new container. The container ends with the command.
fn in_a_container(plain: &Command) -> Command {
    let plain = plain.as_std();
    let mut container = Command::new("unshare");
    if !rustix::process::geteuid().is_root() {
        container.args(["--user", "--map-root-user"]);
    }
    container.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
    container.arg(plain.get_program()).args(plain.get_args());
    container.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    container.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    container
}

#[tokio::test]
async fn the_first_process_of_a_container_reaps_orphans() {
    let cluster = Cluster::start(1).await;
    for arguments in [&["run", "job"][..], &["elect", "job", "--value", "v"]] {
        let scratch = Scratch::new();
        let file = scratch.file("orphan");
        // The parent of the orphan ends at once, and the orphan ends soon after. When the orphan has been
        // reaped, `/proc` has no entry for the orphan.
        let script = format!(
            "sh -c 'sleep 0.05 & echo $! > {file}'; orphan=$(cat {file}); tries=0\n\
             while [ -e /proc/$orphan ]; do\n\
               tries=$((tries + 1)); [ $tries -gt 400 ] && exit 9; sleep 0.01\n\
             done\n\
             exit 7"
        );
        let run = wait_for_output(
            in_a_container(command_admitting_new_nodes(&cluster, arguments).args(["-c", &script]))
                .spawn()
                .unwrap(),
        )
        .await;
        assert_eq!(exit_code(&run), 7, "{arguments:?}: {}", stderr(&run));
    }
}

#[tokio::test]
async fn a_candidate_reaps_orphans_during_the_restart_pause() {
    let cluster = Cluster::start(1).await;
    let scratch = Scratch::new();
    let (started, reaped) = (scratch.file("started"), scratch.file("reaped"));
    // Each orphan ends after the command, and another process writes the time at which the orphan is reaped to a file.
    let script = format!(
        "date +%s%N >> {started}\n\
         (orphan=$(sh -c 'sleep 0.05 > /dev/null & echo $!')\n\
         while [ -e /proc/$orphan ]; do sleep 0.01; done; date +%s%N >> {reaped}) > /dev/null 2>&1 &"
    );
    let mut elect = command_admitting_new_nodes(&cluster, ["elect", "job", "--value", "v", "--restart"]);
    let elect = in_a_container(elect.args(["-c", &script])).spawn().unwrap();
    // The pause lasts for a second. If orphans were reaped only at the end of the pause, the recorded time would be
    // directly before the next start.
    let is_reaped_in_the_pause = || {
        let times = |name| -> Vec<u64> { scratch.read(name).lines().map(|at| at.parse().unwrap()).collect() };
        let (started, reaped) = (times("started"), times("reaped"));
        std::iter::zip(&reaped, started.iter().skip(1)).any(|(reaped, next)| reaped + 500_000_000 < *next)
    };
    eventually(TIME_LIMIT, "an orphan is reaped half a second before the next start", async || {
        is_reaped_in_the_pause()
    })
    .await;
    drop(elect);
}

#[tokio::test]
async fn a_signal_ends_the_first_process_of_a_container_while_it_connects() {
    let cluster = Cluster::start(3).await;
    for server in cluster.some(0..2) {
        server.freeze().await;
    }
    let scratch = Scratch::new();
    let file = scratch.file("redquorum.toml");
    std::fs::write(&file, "connect_timeout = \"50s\"\n").unwrap();
    let commands = [
        &["run", "job", "--", "true"][..],
        &["elect", "job", "--value", "v", "--", "true"],
        &["bench"],
        &["observe", "job"],
        &["inspect", "job"],
    ];
    for arguments in commands {
        let mut container = in_a_container(command_on(&cluster, arguments).env("REDQUORUM_CONFIG", &file));
        let mut container = container.spawn().unwrap();
        let mut errors = BufReader::new(container.stderr.take().unwrap()).lines();
        let connects = async {
            while let Some(line) = errors.next_line().await.unwrap() {
                // The command writes this report after a second of attempts to connect.
                if line.starts_with("redquorum: no quorum: 1 of 3 nodes answers") {
                    return;
                }
            }
            panic!("{arguments:?} has ended");
        };
        tokio::time::timeout(TIME_LIMIT, connects).await.expect("the command reports that it connects");
        send_signal(first_process(&container).await, Signal::TERM);
        assert_eq!(exit_code(&wait_for_output(container).await), 128 + 15, "{arguments:?}");
    }
}

/// Returns the id that the first process of a container has outside of the container.
async fn first_process(container: &Child) -> u32 {
    let unshare = container.id().unwrap();
    let children = format!("/proc/{unshare}/task/{unshare}/children");
    let first = || -> Option<u32> {
        let first = std::fs::read_to_string(&children).ok()?.split_whitespace().next()?.parse().ok()?;
        // Before its exec, the process still runs `unshare`.
        let program = std::fs::read_to_string(format!("/proc/{first}/comm")).ok()?;
        (program.trim() == "redquorum").then_some(first)
    };
    eventually(TIME_LIMIT, "the container has a process", async || first().is_some()).await;
    first().unwrap()
}
