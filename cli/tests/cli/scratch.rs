//! A directory for the files of a test.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use redquorum_tests::eventually;

use super::redquorum::TIME_LIMIT;

/// A directory for one test. A drop deletes the directory.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("redquorum-cli-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in the directory, as text for a command.
    pub(super) fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    /// Returns the content of a file, or an empty text if the file does not exist.
    pub(super) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    /// Waits until a file exists.
    pub(super) async fn wait_until_exists(&self, name: &str) {
        eventually(TIME_LIMIT, &format!("{name} exists"), async || self.0.join(name).exists()).await;
    }

    /// Waits until a file has `count` lines, and returns its lines.
    pub(super) async fn lines(&self, name: &str, count: usize) -> Vec<String> {
        let whole = |text: &str| text.matches('\n').count() >= count;
        eventually(TIME_LIMIT, &format!("{name} has {count} lines"), async || whole(&self.read(name))).await;
        self.read(name).lines().map(str::to_owned).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
