//! Files that test processes lock to exclude each other.

use std::fs::File;

/// Opens the lock file of this name, which all test processes of a user share. If a process is killed, the
/// system releases its locks.
///
/// # Errors
///
/// If the file cannot be created; the text names it.
pub(crate) fn open(name: &str) -> Result<File, String> {
    // Each user has a directory, because a user may not open the files of other users.
    let user = rustix::process::getuid().as_raw();
    let directory = std::env::temp_dir().join(format!("redquorum-test-locks-{user}"));
    std::fs::create_dir_all(&directory)
        .and_then(|()| File::create(directory.join(name)))
        .map_err(|error| format!("the lock {name} in {}: {error}", directory.display()))
}
