//! Redis servers for one scenario.

use std::time::Duration;

use redis::{
    AsyncConnectionConfig, Client,
    aio::{Monitor, MultiplexedConnection},
};
use redquorum::{Quorum, QuorumBuilder};
use redquorum_tests::{Cluster, Server};
use rslock::LockManager;

use crate::Problem;

/// Independent servers without persistence, as processes.
#[derive(Debug)]
pub(crate) struct Servers(Cluster);

impl Servers {
    pub(crate) async fn start(count: usize) -> Self {
        Self(Cluster::processes(count).await)
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.0.urls()
    }

    pub(crate) fn all(&self) -> &[Server] {
        self.0.servers()
    }

    /// Returns the settings of our clients: the defaults, except that the servers may be new.
    pub(crate) fn builder(&self) -> QuorumBuilder {
        Quorum::builder().nodes(self.urls()).admit_new_nodes()
    }

    pub(crate) async fn ours(&self) -> Result<Quorum, Problem> {
        Ok(self.builder().connect().await?)
    }

    /// Returns a client of rslock with default settings. The client connects at its first use.
    pub(crate) fn rival(&self) -> LockManager {
        LockManager::new(self.urls())
    }

    /// Starts to log calls that take longer than a tenth of a millisecond.
    pub(crate) async fn log_long_calls(&self) -> Result<(), Problem> {
        for server in self.all() {
            let mut connection = connection_to(server).await?;
            for (name, value) in [("slowlog-log-slower-than", 100), ("slowlog-max-len", 100_000)] {
                let mut command = redis::cmd("CONFIG");
                command.arg("SET").arg(name).arg(value).exec_async(&mut connection).await?;
            }
            redis::cmd("SLOWLOG").arg("RESET").exec_async(&mut connection).await?;
        }
        Ok(())
    }

    /// Returns the duration of the longest logged call, or zero without logged calls.
    pub(crate) async fn longest_call(&self) -> Result<Duration, Problem> {
        type Entry = (u64, u64, u64, redis::Value, redis::Value, redis::Value);
        let mut longest = 0;
        for server in self.all() {
            let mut connection = connection_to(server).await?;
            let calls: Vec<Entry> =
                redis::cmd("SLOWLOG").arg("GET").arg(-1).query_async(&mut connection).await?;
            longest = calls.iter().map(|(_, _, microseconds, ..)| *microseconds).fold(longest, u64::max);
        }
        Ok(Duration::from_micros(longest))
    }

    /// Returns the number of times that all servers together have executed these commands,
    /// including executions inside of scripts.
    pub(crate) async fn calls(&self, commands: &[&str]) -> Result<u64, Problem> {
        let mut sum = 0;
        for server in self.all() {
            let mut connection = connection_to(server).await?;
            let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
            sum += info.lines().filter_map(|line| calls_of(line, commands)).sum::<u64>();
        }
        Ok(sum)
    }

    /// Returns the microseconds that each server has spent on calls of clients. The time of a script
    /// includes its commands.
    pub(crate) async fn microseconds_spent(&self) -> Result<Vec<u64>, Problem> {
        let mut spent = Vec::new();
        for server in self.all() {
            let mut connection = connection_to(server).await?;
            let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
            let of_clients = info.lines().filter(|line| {
                ["evalsha", "subscribe", "unsubscribe"].iter().any(|command| {
                    line.strip_prefix("cmdstat_").is_some_and(|rest| rest.starts_with(&format!("{command}:")))
                })
            });
            let usec = of_clients
                .filter_map(|line| line.split("usec=").nth(1)?.split(',').next()?.parse::<u64>().ok());
            spent.push(usec.sum());
        }
        Ok(spent)
    }
}

/// Returns the number of calls from a line such as `cmdstat_evalsha:calls=4,usec=..`, if the line is
/// about one of these commands.
fn calls_of(line: &str, commands: &[&str]) -> Option<u64> {
    let (name, rest) = line.trim_end().strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let (calls, _) = rest.split_once(',')?;
    commands.contains(&name).then(|| calls.parse().ok())?
}

/// Returns a multiplexed connection of the redis crate with the least possible cost: without a response timeout,
/// and without the delays of Nagle's algorithm.
pub(crate) async fn connection_to(server: &Server) -> Result<MultiplexedConnection, Problem> {
    let client = Client::open(server.url())?;
    let tcp = client.get_connection_info().tcp_settings().clone().set_nodelay(true);
    let client = Client::open(client.get_connection_info().clone().set_tcp_settings(tcp))?;
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
}

/// Returns a stream of all commands that the server receives from now on, as `MONITOR` shows them.
pub(crate) async fn monitor_of(server: &Server) -> Result<Monitor, Problem> {
    Ok(Client::open(server.url())?.get_async_monitor().await?)
}
