//! Programs of the recipes as child processes, for all tests of this folder.

use std::{
    process::{Output, Stdio},
    time::Duration,
};

use redquorum::{Quorum, admin};
use redquorum_tests::Cluster;
use tokio::{process::Command, time::timeout};

/// A time longer than any step takes on a machine under load, and shorter than the default ttl.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// Returns a program without the settings of the environment, which ends with the test.
pub(super) fn program(path: &str) -> Command {
    let mut command = Command::new(path);
    for (variable, _) in std::env::vars_os() {
        if variable.as_encoded_bytes().starts_with(b"REDQUORUM_") {
            command.env_remove(variable);
        }
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
    command
}

/// Waits for the end of a program, and returns its output.
pub(super) async fn output(command: &mut Command) -> Output {
    timeout(SOON, command.output()).await.expect("the program did not end before the deadline").unwrap()
}

/// Returns the output of a program that has to succeed.
pub(super) async fn printed(command: &mut Command) -> String {
    let output = output(command).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

/// Starts servers and makes a quorum of them.
pub(super) async fn quorum(count: usize) -> Cluster {
    let cluster = Cluster::start(count).await;
    admin::init(&Quorum::builder().nodes(cluster.urls())).await.unwrap();
    cluster
}

/// Returns the nodes in the format of `REDQUORUM_NODES`.
pub(super) fn nodes(cluster: &Cluster) -> String {
    cluster.urls().join(",")
}

/// Returns the url of a database file, which is deleted with the cluster.
pub(super) fn file(cluster: &Cluster, name: &str) -> String {
    std::fs::create_dir_all(cluster.directory()).unwrap();
    format!("sqlite:{}?mode=rwc", cluster.directory().join(name).display())
}
