//! A server in a Docker container.

use std::mem::ManuallyDrop;
use std::time::Duration;

use testcontainers::core::WaitFor;
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, GenericImage, ImageExt};

use super::docker::{CLUSTER_LABEL, PROCESS_LABEL, docker_async};
use super::image;
use super::options::ServerOptions;
use super::stale::Identity;

/// A container that uses the network of this machine, so a restarted server keeps its address.
#[derive(Debug)]
pub(super) struct ServerContainer {
    /// Never dropped, because the destructor needs a running runtime. The [`Reaper`](super::reaper::Reaper)
    /// removes the container in any case.
    container: ManuallyDrop<ContainerAsync<GenericImage>>,
    cluster: String,
    options: ServerOptions,
    port: u16,
}

impl ServerContainer {
    /// Starts a container of the cluster, and waits until its server is ready.
    ///
    /// # Errors
    ///
    /// If the container cannot be started, or its server ends before it is ready.
    pub(super) async fn start(cluster: &str, options: &ServerOptions, port: u16) -> Result<Self, String> {
        let container = ManuallyDrop::new(run(cluster, options, port).await?);
        Ok(Self { container, cluster: cluster.to_owned(), options: options.clone(), port })
    }

    pub(super) async fn freeze(&self) {
        self.container.pause().await.expect("a running container can be paused");
    }

    pub(super) async fn thaw(&self) {
        self.container.unpause().await.expect("a paused container can be unpaused");
    }

    /// Returns why the server has ended, or `None` while it runs.
    pub(super) async fn failure(&self) -> Option<String> {
        if self.container.is_running().await.expect("the state of a container can be read") {
            return None;
        }
        Some(format!("the container ended:\n{}", docker_async(&["logs", self.container.id()]).await.ok()?))
    }

    /// Kills the server with SIGKILL, even if it is paused. Does nothing if the server has ended.
    pub(super) async fn kill(&self) {
        if self.container.is_running().await.expect("the state of a container can be read") {
            let kill = docker_async(&["kill", "--signal", "KILL", self.container.id()]).await;
            kill.expect("a running container can be killed");
        }
        docker_async(&["wait", self.container.id()]).await.expect("a killed container ends");
    }

    pub(super) async fn restart_keeping_data(&self) {
        self.kill().await;
        self.container.start().await.expect("a killed container can be started again");
    }

    /// Replaces the container, which also removes its data.
    pub(super) async fn restart_empty(&mut self) -> Result<(), String> {
        docker_async(&["rm", "--force", "--volumes", self.container.id()]).await?;
        self.container = ManuallyDrop::new(run(&self.cluster, &self.options, self.port).await?);
        Ok(())
    }
}

async fn run(
    cluster: &str,
    options: &ServerOptions,
    port: u16,
) -> Result<ContainerAsync<GenericImage>, String> {
    let image =
        tokio::task::spawn_blocking(image::ensure).await.expect("the search for the image does not panic")?;
    GenericImage::new(image::NAME, image.tag())
        .with_wait_for(WaitFor::message_on_stdout("Ready to accept connections"))
        .with_cmd(options.arguments(port))
        .with_network("host")
        .with_label(CLUSTER_LABEL, cluster)
        .with_label(PROCESS_LABEL, Identity::current().to_string())
        .with_startup_timeout(Duration::from_secs(30))
        .start()
        .await
        .map_err(|error| error.to_string())
}
