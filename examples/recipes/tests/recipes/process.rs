//! A program as a process.

use std::{
    process::{Output, Stdio},
    time::Duration,
};

use redquorum::Quorum;
use redquorum_tests::Cluster;
use tokio::{process::Command, time::timeout};

/// Longer than anything here takes on a machine under load, and shorter than the default ttl.
pub(super) const SOON: Duration = Duration::from_secs(20);

/// A program without anything of the tester's settings, ended with the test.
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

/// What came of a program that ends soon.
pub(super) async fn output(command: &mut Command) -> Output {
    timeout(SOON, command.output()).await.expect("it ends soon").unwrap()
}

/// What a program printed that ended well.
pub(super) async fn printed(command: &mut Command) -> String {
    let output = output(command).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{}: {}", output.status, text(&output.stderr));
    text(&output.stdout)
}

/// Servers of which a quorum has been made.
pub(super) async fn quorum(count: usize) -> Cluster {
    let cluster = Cluster::start(count).await;
    Quorum::builder().nodes(cluster.urls()).init().await.unwrap();
    cluster
}

/// As `REDQUORUM_NODES` wants it.
pub(super) fn nodes(cluster: &Cluster) -> String {
    cluster.urls().join(",")
}
