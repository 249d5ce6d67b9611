//! Commands of cargo on this workspace, with the compiler and the target directory of this build.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// Returns the root directory of the workspace.
pub(super) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Returns the target directory of this build.
pub(super) fn target() -> &'static Path {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR"));
    scratch.parent().expect("the directory `tmp` is in the target directory")
}

/// Returns a new, empty directory for the files of one test.
pub(super) fn scratch(name: &str) -> io::Result<PathBuf> {
    let scratch = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if scratch.exists() {
        fs::remove_dir_all(&scratch)?;
    }
    fs::create_dir_all(&scratch)?;
    Ok(scratch)
}

/// Returns a command such as `cargo build`. If this build has compiled a package with the same features, cargo does not
/// compile the package again.
pub(super) fn cargo(subcommand: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args([subcommand, "--locked", "--target-dir"]).arg(target());
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_test_process(&name.to_string_lossy())) {
        cargo.env_remove(name);
    }
    cargo
}

/// Whether cargo or nextest sets this variable for a test process. Some build scripts depend on these variables. If the
/// variables had other values than in this build, cargo would compile the packages of these scripts again.
fn is_of_test_process(name: &str) -> bool {
    ["CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_", "NEXTEST"].iter().any(|prefix| name.starts_with(prefix))
}
