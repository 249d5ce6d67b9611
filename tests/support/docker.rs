//! The `docker` command, for operations that testcontainers does not have, such as `import`, `kill` and `rm` by
//! label.

#![cfg_attr(
    not(redquorum_containers),
    allow(dead_code, reason = "a build without containers does not use this module")
)]

use std::process::Command;

/// The label of each container of the fixture with the [identity](super::stale::Identity) of its test
/// process.
pub(super) const PROCESS_LABEL: &str = "redquorum.test-process";

/// The label of each container of the fixture with the name of its cluster.
pub(super) const CLUSTER_LABEL: &str = "redquorum.test-cluster";

/// Runs `docker` with these arguments, and returns the output.
///
/// # Errors
///
/// If the program is missing or fails. The text contains its standard error.
pub(super) fn docker(arguments: &[&str]) -> Result<String, String> {
    output(Command::new("docker").args(arguments))
}

/// Runs a command to its end, and returns the output without the last line break.
///
/// # Errors
///
/// If the command cannot be run or fails. The text contains its standard error.
pub(super) fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    } else {
        Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end()))
    }
}

/// Runs [`docker`] without blocking the other tasks of the test.
pub(super) async fn docker_async(arguments: &[&str]) -> Result<String, String> {
    let output = tokio::process::Command::new("docker").args(arguments).output().await;
    let output = output.map_err(|error| format!("docker {arguments:?}: {error}"))?;
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    } else {
        Err(format!("docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr).trim_end()))
    }
}

/// Checks that an engine answers whose containers can listen on the loopback address of this machine.
///
/// # Errors
///
/// If no engine answers, or if its containers have a network of their own (rootless engines, Docker Desktop).
pub(super) fn engine_answers() -> Result<(), String> {
    let engine = docker(&["info", "--format", "{{.OperatingSystem}} {{.SecurityOptions}}"])?;
    if engine.contains("rootless") || engine.contains("Docker Desktop") {
        return Err(format!("containers of this engine cannot use the network of this machine: {engine}"));
    }
    Ok(())
}
