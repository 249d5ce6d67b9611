//! Commands of cargo on this workspace, with the compiler and the target directory of this build.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Command,
};

/// The root of the workspace.
pub(super) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// The target directory of this build.
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

/// A command such as `cargo build`. Cargo does not compile a package again that this build has compiled with
/// the same features.
pub(super) fn cargo(subcommand: &str) -> Command {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args([subcommand, "--locked", "--target-dir"]).arg(target());
    for (name, _) in env::vars_os().filter(|(name, _)| is_of_test_process(&name.to_string_lossy())) {
        cargo.env_remove(name);
    }
    cargo
}

/// Whether cargo or nextest sets this variable for a test process. Build scripts read some of these variables,
/// so cargo would compile their packages again.
fn is_of_test_process(name: &str) -> bool {
    ["CARGO_CRATE_", "CARGO_MANIFEST_", "CARGO_PKG_", "NEXTEST"].iter().any(|prefix| name.starts_with(prefix))
}
