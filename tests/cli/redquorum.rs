//! The command as a process.

use std::{
    ffi::OsStr,
    process::{Output, Stdio},
    time::Duration,
};

use tokio::process::{Child, Command};

use crate::support::Cluster;

/// Longer than anything here takes on a machine under load.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// The command with these arguments, without anything of the tester's environment, ended with the test.
pub(super) fn redquorum<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_redquorum"));
    command.args(arguments).kill_on_drop(true);
    for variable in ["REDQUORUM_NODES", "REDQUORUM_CONFIG", "NO_COLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The command on the nodes of a cluster, which it admits if they are new.
pub(super) fn on<S: AsRef<OsStr>>(cluster: &Cluster, arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = redquorum(arguments);
    command.env("REDQUORUM_NODES", cluster.urls().join(","));
    command
}

/// What came of a process that ends soon.
///
/// # Panics
///
/// It does not.
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

/// The exit status, with what was said if there is none.
pub(super) fn code(output: &Output) -> i32 {
    output.status.code().unwrap_or_else(|| panic!("{:?}: {}", output.status, stderr(output)))
}
