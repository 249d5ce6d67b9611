//! The programs that tests use on this machine.

use std::path::PathBuf;

/// The advice if no server program is installed.
pub(crate) const HOW_TO_GET_ONE: &str = "install Redis (`apt-get install redis-server`) or Valkey";

/// Returns the path of the first program of this name on `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// Returns the server program for tests: the program that `REDQUORUM_TEST_SERVER` names, or else
/// the installed Redis or Valkey.
///
/// # Panics
///
/// If the variable names no file.
pub(crate) fn find_server() -> Option<PathBuf> {
    match std::env::var_os("REDQUORUM_TEST_SERVER") {
        Some(path) => Some(named(path.into())),
        None => find("redis-server").or_else(|| find("valkey-server")),
    }
}

/// Returns the server program for tests.
///
/// # Panics
///
/// If no server program is installed. The message has the advice.
pub(crate) fn server() -> PathBuf {
    find_server().unwrap_or_else(|| panic!("no Redis server to test against: {HOW_TO_GET_ONE}"))
}

/// Returns the path that `REDQUORUM_TEST_SERVER` names.
///
/// # Panics
///
/// If there is no file. The message has the advice.
pub(crate) fn named(path: PathBuf) -> PathBuf {
    assert!(
        path.is_file(),
        "REDQUORUM_TEST_SERVER names {path:?}, where there is no server: {HOW_TO_GET_ONE}, or name what \
         `tests/servers.sh redis-6.2`, `redis-8` or `valkey` prints"
    );
    path
}
