//! A set of independent servers for one test or benchmark.

use std::ops::Range;
use std::path::Path;

use futures::future::join_all;

use super::kind::Kind;
use super::options::ServerOptions;
use super::reaper::Reaper;
use super::server::Server;
use super::stale;

/// Independent Redis servers. When the value is dropped or the test process ends, the servers and their data
/// are removed.
#[derive(Debug)]
pub struct Cluster {
    // Fields are dropped in this order: the servers end before the reaper removes their directories.
    servers: Vec<Server>,
    kind: Kind,
    reaper: Reaper,
}

impl Cluster {
    /// Starts `count` servers without persistence, of the kind that [`Kind::choose`] returns.
    pub async fn start(count: usize) -> Self {
        Self::start_with(count, ServerOptions::default()).await
    }

    /// Starts `count` servers with these options, of the kind that [`Kind::choose`] returns.
    pub async fn start_with(count: usize, options: ServerOptions) -> Self {
        Self::start_as(Kind::choose(), count, options).await
    }

    /// Starts `count` servers without persistence as processes. The environment variable is not read.
    pub async fn processes(count: usize) -> Self {
        Self::start_as(Kind::Processes, count, ServerOptions::default()).await
    }

    /// Starts `count` servers without persistence as containers. The environment variable is not read.
    pub async fn containers(count: usize) -> Self {
        Self::start_as(Kind::Containers, count, ServerOptions::default()).await
    }

    /// Starts `count` servers of this kind with these options, and returns when all of them answer.
    pub async fn start_as(kind: Kind, count: usize, options: ServerOptions) -> Self {
        if kind == Kind::Containers {
            stale::sweep();
        }
        let reaper = Reaper::start(kind == Kind::Containers);
        let servers = join_all((0..count).map(|_| Server::start(kind, &options, &reaper))).await;
        Self { servers, kind, reaper }
    }

    /// Returns the directory of the cluster. Each server that runs as a process has a subdirectory there, named
    /// after the port of the server.
    pub fn directory(&self) -> &Path {
        self.reaper.directory()
    }

    /// Returns the kind of the servers.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the name of the cluster's directory, which is also the label of its containers.
    pub fn name(&self) -> &str {
        self.reaper.name()
    }

    /// Returns the server with this number, counted from 0.
    ///
    /// # Panics
    ///
    /// If the cluster has no server with this number.
    pub fn server(&self, number: usize) -> &Server {
        &self.servers[number]
    }

    /// Returns all servers.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Returns the servers with these numbers, such as a minority that the test kills.
    ///
    /// # Panics
    ///
    /// If the cluster has no server with one of these numbers.
    pub fn some(&self, numbers: Range<usize>) -> &[Server] {
        &self.servers[numbers]
    }

    /// Returns the URLs of all servers, in order.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }
}
