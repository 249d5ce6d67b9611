//! Cleaning up after a test, however it ends.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::docker::CLUSTER_LABEL;

/// Waits for the end of its standard input, then removes all that belongs to the cluster of that
/// name.
const SCRIPT: &str = r#"
cat >/dev/null
if [ "$3" = containers ]; then
    docker ps --all --quiet --filter "label=$1" | xargs -r docker rm --force --volumes
fi
rm -rf "$2"
"#;

/// A process beside the test that removes the data and the containers of one cluster when the test
/// lets go of it.
///
/// It waits on a pipe whose other end only this test process holds, so it also learns of a test
/// that was killed with SIGKILL and had no chance to clean up. It runs in a process group of its
/// own, out of the reach of a Ctrl-C and of a test runner that ends the whole group of a slow test.
#[derive(Debug)]
pub(super) struct Reaper {
    process: Child,
    name: String,
    directory: PathBuf,
}

impl Reaper {
    /// Names a new cluster and starts to watch over it.
    pub(super) fn start(has_containers: bool) -> Self {
        static CLUSTERS: AtomicU32 = AtomicU32::new(0);
        let number = CLUSTERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("redquorum-test-{}-{number}-{:08x}", std::process::id(), rand::random::<u32>());
        let directory = std::env::temp_dir().join(&name);
        std::fs::create_dir(&directory).expect("the directory for temporary files is writable");
        let process = Command::new("sh")
            .args(["-c", SCRIPT, "redquorum-test-reaper", &format!("{CLUSTER_LABEL}={name}")])
            .arg(&directory)
            .arg(if has_containers { "containers" } else { "processes" })
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh starts");
        Self { process, name, directory }
    }

    /// The value of the [`CLUSTER_LABEL`] that containers need so as to be removed.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where the servers keep their files.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Reaper {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        self.process.wait().ok();
    }
}
