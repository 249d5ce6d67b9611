//! Helpers of all tests: the command as a process, and its output.

use std::{
    ffi::OsStr,
    process::{Output, Stdio},
    time::Duration,
};

use redquorum::unstable_redis::redis::cmd;
use redquorum_tests::{Cluster, Server, eventually};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

/// The time limit of a step. A step needs less time even on a machine under load.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(20);

/// Returns the command with these arguments, without the environment and the terminal of the test
/// run. A drop kills the process.
pub(super) fn redquorum<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redquorum"));
    command.args(arguments).kill_on_drop(true).process_group(0);
    for variable in ["NO_COLOR", "CLICOLOR_FORCE", "RUST_LOG"] {
        command.env_remove(variable);
    }
    for (variable, _) in std::env::vars_os() {
        if variable.as_encoded_bytes().starts_with(b"REDQUORUM_") {
            command.env_remove(variable);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Returns the command with the nodes of a cluster and the option to admit new nodes.
pub(super) fn command_admitting_new_nodes<S: AsRef<OsStr>>(
    cluster: &Cluster,
    arguments: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = redquorum(["--admit-new-nodes"]);
    command.args(arguments).env("REDQUORUM_NODES", cluster.urls().join(","));
    command
}

/// Returns the command with the nodes of a cluster. New nodes are not admitted.
pub(super) fn command_on<S: AsRef<OsStr>>(
    cluster: &Cluster,
    arguments: impl IntoIterator<Item = S>,
) -> Command {
    let mut command = redquorum(arguments);
    command.env("REDQUORUM_NODES", cluster.urls().join(","));
    command
}

/// Lets the command wait a second, not half a minute, for nodes that are missing.
pub(super) fn without_patience(mut command: Command) -> Command {
    command.env("REDQUORUM_CONNECT_TIMEOUT", "1s");
    command
}

/// Returns `redquorum run` with these arguments and a shell script as its command. New nodes are
/// admitted.
pub(super) fn run(cluster: &Cluster, arguments: &[&str], script: &str) -> Command {
    let mut command = command_admitting_new_nodes(cluster, ["run"]);
    command.args(arguments).args(["--", "sh", "-c", script]);
    command
}

/// Waits for the end of a process, and returns its output.
///
/// # Panics
///
/// If the process does not end within [`TIME_LIMIT`].
pub(super) async fn wait_for_output(child: Child) -> Output {
    tokio::time::timeout(TIME_LIMIT, child.wait_with_output())
        .await
        .expect("the process ends within the time limit")
        .unwrap()
}

/// Runs the command to its end.
pub(super) async fn output(mut command: Command) -> Output {
    wait_for_output(command.spawn().unwrap()).await
}

pub(super) fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(super) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Returns the objects on standard output, one per line.
pub(super) fn json(output: &Output) -> Vec<serde_json::Value> {
    let object = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line:?}; {}", stderr(output)))
    };
    stdout(output).lines().map(object).collect()
}

/// Returns the exit status.
///
/// # Panics
///
/// If a signal ended the process. The message has the standard error of the process.
pub(super) fn exit_code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{:?}: {}", output.status, stderr(output)))
}

/// Sends a signal to one process.
pub(super) fn send_signal(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Returns the letter of the system for the state of a process, such as `S` for sleeping or `T` for
/// stopped. `None` if the process has ended, reaped or not.
pub(super) fn process_state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next().filter(|state| *state != 'Z')
}

/// Waits until no server has a key of the resource.
pub(super) async fn wait_until_free(servers: &[Server], resource: &str) {
    let condition = format!("{resource} is free");
    eventually(TIME_LIMIT, &condition, async || {
        for server in servers {
            if server.query::<bool>(cmd("EXISTS").arg(resource)).await {
                return false;
            }
        }
        true
    })
    .await;
}
