//! The command as a process, for all tests.

use std::{
    ffi::OsStr,
    process::{Output, Stdio},
    time::Duration,
};

use redquorum::unstable_redis::redis::cmd;
use redquorum_tests::{Cluster, Server, eventually};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

/// A time limit that no step of these tests reaches on a loaded machine.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// Returns the command with these arguments, isolated from the environment and the terminal of the
/// test run, and killed when dropped.
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

/// Returns the command on the nodes of a cluster. New nodes are admitted.
pub(super) fn on<S: AsRef<OsStr>>(cluster: &Cluster, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = redquorum(["--admit-new-nodes"]);
    command.args(arguments).env("REDQUORUM_NODES", cluster.urls().join(","));
    command
}

/// Returns the command on the nodes of a cluster, without admitting new nodes.
pub(super) fn plainly<S: AsRef<OsStr>>(cluster: &Cluster, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = redquorum(arguments);
    command.env("REDQUORUM_NODES", cluster.urls().join(","));
    command
}

/// Returns `redquorum run` with these arguments on the nodes of a cluster, and with a shell script as
/// its command.
pub(super) fn run(cluster: &Cluster, arguments: &[&str], script: &str) -> Command {
    let mut command = on(cluster, ["run"]);
    command.args(arguments).args(["--", "sh", "-c", script]);
    command
}

/// Waits for the end of a process.
///
/// # Panics
///
/// If the process does not end [soon](SOON).
pub(super) async fn ended(child: Child) -> Output {
    tokio::time::timeout(SOON, child.wait_with_output()).await.expect("the process ends soon").unwrap()
}

/// Runs the command to its end.
pub(super) async fn output(mut command: Command) -> Output {
    ended(command.spawn().unwrap()).await
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
/// With standard error, if a signal ended the process.
pub(super) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{:?}: {}", output.status, stderr(output)))
}

/// Sends a signal to one process.
pub(super) fn send(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Returns the system's letter for the state of a process: `S` for sleeping, `T` for stopped. `None` if
/// the process has ended, reaped or not.
pub(super) fn state(pid: u32) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next().filter(|state| *state != 'Z')
}

/// Waits until no server has a key of the resource.
pub(super) async fn is_free(servers: &[Server], resource: &str) {
    let what = format!("{resource} is free");
    eventually(SOON, &what, async || {
        for server in servers {
            if server.query::<bool>(cmd("EXISTS").arg(resource)).await {
                return false;
            }
        }
        true
    })
    .await;
}
