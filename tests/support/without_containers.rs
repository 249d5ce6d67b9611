//! The replacement of `container.rs` in a build without testcontainers, in which all servers are processes.

use super::options::ServerOptions;

/// A server in a container, which this build cannot start.
#[derive(Debug)]
pub(super) enum ServerContainer {}

impl ServerContainer {
    pub(super) async fn start(_cluster: &str, _options: &ServerOptions, _port: u16) -> Result<Self, String> {
        Err("this build is without containers: build with RUSTFLAGS=\"--cfg redquorum_containers\""
            .to_owned())
    }

    pub(super) async fn freeze(&self) {
        match *self {}
    }

    pub(super) async fn thaw(&self) {
        match *self {}
    }

    pub(super) async fn failure(&self) -> Option<String> {
        match *self {}
    }

    pub(super) async fn kill(&self) {
        match *self {}
    }

    pub(super) async fn restart_keeping_data(&self) {
        match *self {}
    }

    pub(super) async fn restart_empty(&mut self) -> Result<(), String> {
        match *self {}
    }
}
