//! A set of independent servers for one test.

use std::ops::Range;
use std::path::Path;

use futures::future::join_all;

use super::kind::Kind;
use super::options::ServerOptions;
use super::reaper::Reaper;
use super::server::Server;
use super::stale;

/// Independent Redis servers, which are gone with their data when this is dropped or the test
/// process ends.
#[derive(Debug)]
pub struct Cluster {
    // Before the reaper, because fields are dropped in this order and the reaper removes the
    // directories.
    servers: Vec<Server>,
    kind: Kind,
    reaper: Reaper,
}

impl Cluster {
    /// Starts `count` servers without persistence, of the kind that [`Kind::choose`] picks.
    pub async fn start(count: usize) -> Self {
        Self::start_with(count, ServerOptions::default()).await
    }

    /// Starts `count` servers with these options, of the kind that [`Kind::choose`] picks.
    pub async fn start_with(count: usize, options: ServerOptions) -> Self {
        Self::start_as(Kind::choose(), count, options).await
    }

    /// Starts `count` servers as processes, whatever the environment asks for.
    pub async fn processes(count: usize) -> Self {
        Self::start_as(Kind::Processes, count, ServerOptions::default()).await
    }

    /// Starts `count` servers as containers, whatever the environment asks for.
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

    /// Where servers that run as processes keep their files, each in a directory that is called as
    /// its port.
    pub fn directory(&self) -> &Path {
        self.reaper.directory()
    }

    /// What its servers run as.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What the label of the cluster's containers and its directory are called.
    pub fn name(&self) -> &str {
        self.reaper.name()
    }

    /// # Panics
    ///
    /// There is no server of this number.
    pub fn server(&self, number: usize) -> &Server {
        &self.servers[number]
    }

    /// All of its servers.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// Some of the servers, such as a minority to bring down.
    pub fn some(&self, numbers: Range<usize>) -> &[Server] {
        &self.servers[numbers]
    }

    /// The URL of every server, in the order of their numbers.
    pub fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }
}
