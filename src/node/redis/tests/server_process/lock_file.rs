//! Files that test processes lock so as not to get into each other's way.

use std::fs::File;

/// Opens the lock of this name, which all test processes of a user share; the system unlocks it for
/// a killed one.
///
/// # Errors
///
/// The file cannot be created; the text says where.
pub(crate) fn open(name: &str) -> Result<File, String> {
    // Of every user apart, because the files of one cannot be opened by another.
    let user = rustix::process::getuid().as_raw();
    let directory = std::env::temp_dir().join(format!("redquorum-test-locks-{user}"));
    std::fs::create_dir_all(&directory)
        .and_then(|()| File::create(directory.join(name)))
        .map_err(|error| format!("the lock {name} in {}: {error}", directory.display()))
}
