//! The removal of a cluster's files and containers after its test, even if the test process is killed.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::docker::CLUSTER_LABEL;

/// Waits for the end of standard input, and then removes the directory and the containers of the cluster.
const SCRIPT: &str = r#"
cat >/dev/null
if [ "$3" = containers ]; then
    docker ps --all --quiet --filter "label=$1" | xargs -r docker rm --force --volumes
fi
rm -rf "$2"
"#;

/// A separate process that removes the data and the containers of one cluster when the test drops this value or
/// the test process ends.
///
/// The process reads from a pipe whose other end only the test process has. The pipe also closes if the test
/// is killed with SIGKILL. The process has a process group of its own, so neither Ctrl-C nor a test runner
/// that kills the group of a slow test ends it.
#[derive(Debug)]
pub(super) struct Reaper {
    process: Child,
    name: String,
    directory: PathBuf,
}

impl Reaper {
    /// Chooses the name of a new cluster, and starts the process.
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

    /// Returns the name of the cluster, which is the value of [`CLUSTER_LABEL`] of its containers.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the directory of the servers' files.
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
