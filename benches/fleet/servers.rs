//! The servers of a scenario, with their faults and their figures.

use std::{ops::Range, time::Duration};

use futures::future::{join_all, try_join_all};
use redquorum::{Quorum, QuorumBuilder, admin};
use redquorum_tests::{Cluster, Kind, Server, ServerOptions};
use rslock::LockManager;
use rustix::process::Pid;
use tokio::time::{Instant, sleep};

use super::{
    gauge::{Gauge, Reading},
    throttle::Throttle,
};
use crate::{Arguments, Problem};

/// The least `maxclients`, which is the default of the server.
const LEAST_MAX_CLIENTS: usize = 10_000;

/// The time for which all clients have to stay connected.
const SETTLED: Duration = Duration::from_secs(2);

/// The time limit for all clients to connect again.
const PATIENCE: Duration = Duration::from_secs(60);

/// The interval of the samples that show whether all clients are connected.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// Independent servers without persistence, as processes, which are one initialised quorum.
#[derive(Debug)]
pub(crate) struct Servers {
    // Fields are dropped in this order: the throttle ends before the servers.
    throttle: Option<Throttle>,
    cluster: Cluster,
    gauges: Vec<Gauge>,
    builder: QuorumBuilder,
}

/// The end of a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    /// The time until all clients were connected.
    pub(crate) seconds: f64,
    /// The number of clients without a connection at the end of the time limit.
    pub(crate) missing: usize,
}

impl Servers {
    pub(crate) async fn start(arguments: &Arguments) -> Result<Self, Problem> {
        let most = LEAST_MAX_CLIENTS.max(2 * arguments.clients() + 100);
        let options = ServerOptions::default().config("maxclients", &most.to_string());
        let cluster = Cluster::start_as(Kind::Processes, arguments.nodes as usize, options).await;
        let builder = Quorum::builder().nodes(cluster.urls()).ttl(arguments.ttl);
        admin::init(&builder).await?;
        let gauges = cluster.urls().into_iter().map(Gauge::of).collect();
        Ok(Self { throttle: None, cluster, gauges, builder })
    }

    /// Returns the settings of the clients: the defaults, except the ttl.
    pub(crate) fn builder(&self) -> QuorumBuilder {
        self.builder.clone()
    }

    /// Returns a client of rslock with default settings. The client connects at its first use.
    pub(crate) fn rival(&self) -> LockManager {
        LockManager::new(self.cluster.urls())
    }

    /// Throttles the servers from now on, if the arguments demand it.
    pub(crate) async fn begin(&mut self, arguments: &Arguments) -> Result<(), Problem> {
        if arguments.throttled && self.throttle.is_none() {
            let throttle = Throttle::start();
            for server in self.cluster.servers() {
                throttle.add(pid(server).await?);
            }
            self.throttle = Some(throttle);
        }
        Ok(())
    }

    pub(crate) async fn read(&mut self) -> Result<Vec<Reading>, Problem> {
        try_join_all(self.gauges.iter_mut().map(Gauge::read)).await
    }

    /// Returns the number of calls of scripts at the first node.
    pub(crate) async fn calls_at_first(&mut self) -> Result<f64, Problem> {
        let first = self.gauges.first_mut().ok_or("there is no node")?;
        first.calls().await
    }

    /// Closes all connections of clients at the first node.
    pub(crate) async fn close_connections(&mut self) -> Result<(), Problem> {
        let first = self.gauges.first_mut().ok_or("there is no node")?;
        first.close_connections().await
    }

    /// Restarts these nodes at once, without their data.
    pub(crate) async fn restart_empty(&mut self, nodes: Range<usize>) -> Result<(), Problem> {
        let restart = async |server: &Server| {
            self.exempt(server).await?;
            server.restart_empty().await;
            self.throttle_again(server).await
        };
        try_join_all(self.cluster.some(nodes).iter().map(restart)).await?;
        Ok(())
    }

    /// Freezes the first node for this time.
    pub(crate) async fn freeze(&mut self, lasts: Duration) -> Result<(), Problem> {
        let server = self.cluster.server(0);
        self.exempt(server).await?;
        server.freeze().await;
        sleep(lasts).await;
        server.thaw().await;
        self.throttle_again(server).await
    }

    /// Waits until each node has a connection of each client, and has them for [`SETTLED`]. The time is counted from
    /// `begin`.
    pub(crate) async fn recovery(&mut self, clients: usize, begin: Instant) -> Recovery {
        let mut all_since = None;
        loop {
            let connections = join_all(self.gauges.iter_mut().map(Gauge::connections)).await;
            let least = connections.into_iter().map(Result::unwrap_or_default).min().unwrap_or_default();
            all_since = if least < clients { None } else { all_since.or_else(|| Some(Instant::now())) };
            if let Some(since) = all_since.filter(|since| since.elapsed() >= SETTLED) {
                return Recovery { seconds: (since - begin).as_secs_f64(), missing: 0 };
            }
            if begin.elapsed() > PATIENCE {
                return Recovery { seconds: f64::NAN, missing: clients.saturating_sub(least) };
            }
            sleep(SAMPLE_INTERVAL).await;
        }
    }

    async fn exempt(&self, server: &Server) -> Result<(), Problem> {
        if let Some(throttle) = &self.throttle {
            throttle.exempt(pid(server).await?);
        }
        Ok(())
    }

    async fn throttle_again(&self, server: &Server) -> Result<(), Problem> {
        if let Some(throttle) = &self.throttle {
            throttle.add(pid(server).await?);
        }
        Ok(())
    }
}

async fn pid(server: &Server) -> Result<Pid, Problem> {
    let pid = server.pid().await.ok_or("the server is no process")?;
    Pid::from_raw(pid.try_into()?).ok_or_else(|| "no process has the number 0".into())
}
