//! The `docker` command line, for what testcontainers lacks: `import`, `kill -9`, `rm` by label.

#![cfg_attr(
    not(redquorum_containers),
    allow(dead_code, reason = "a build without containers has no use for it")
)]

use std::process::Command;

/// Every container of the fixture carries it, with the [identity](super::stale::Identity) of its
/// test process.
pub(super) const PROCESS_LABEL: &str = "redquorum.test-process";

/// Every container of the fixture carries it, with the name of its cluster.
pub(super) const CLUSTER_LABEL: &str = "redquorum.test-cluster";

/// Runs `docker` with these arguments and returns what it printed.
///
/// # Errors
///
/// There is no such program, or it fails; the text holds its standard error.
pub(super) fn docker(arguments: &[&str]) -> Result<String, String> {
    output(Command::new("docker").args(arguments))
}

/// Runs a command to its end and returns what it printed, without the last line break.
///
/// # Errors
///
/// The command cannot be run or fails; the text holds its standard error.
pub(super) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end()))
    }
}

/// [`docker`] without holding up the other tasks of the test.
pub(super) async fn docker_async(arguments: &[&str]) -> Result<String, String> {
    let output = tokio::process::Command::new("docker").args(arguments).output().await;
    let output = output.map_err(|error| format!("docker {arguments:?}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    } else {
        Err(format!("docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end()))
    }
}

/// Whether an engine answers whose containers can listen on the loopback address of this machine.
///
/// # Errors
///
/// The text says why not: no engine, or one with a network of its own (rootless, Docker Desktop).
pub(super) fn engine_answers() -> Result<(), String> {
    let engine = docker(&["info", "--format", "{{.OperatingSystem}} {{.SecurityOptions}}"])?;
    if engine.contains("rootless") || engine.contains("Docker Desktop") {
        return Err(format!("containers of this engine cannot use the network of this machine: {engine}"));
    }
    Ok(())
}
