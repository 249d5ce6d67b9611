//! The programs that the fixture finds on this machine.

use std::path::PathBuf;
use std::process::Command;

/// What to say when there is no server program.
pub(super) const HOW_TO_GET_ONE: &str = "install Redis (`apt-get install redis-server`) or Valkey";

/// The path of the first program of this name on `PATH`.
pub(super) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// The path of the installed Redis or Valkey server.
pub(super) fn find_server() -> Option<PathBuf> {
    find("redis-server").or_else(|| find("valkey-server"))
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
