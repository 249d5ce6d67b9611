//! Redis servers for one scenario: processes of our own on free ports, gone with the scenario
//! however it ends.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    time::{Duration, Instant},
};

use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection};
use redquorum::{Quorum, QuorumBuilder};
use rslock::LockManager;
use rustix::process::{Pid, Signal, kill_process};

use crate::Problem;

/// How long a server may take to start on a machine that does something else as well.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a server may lose the race for its port.
const PORTS_TO_TRY: usize = 5;

/// Independent servers without persistence, with their data in a temporary directory.
#[derive(Debug)]
pub(crate) struct Servers {
    servers: Vec<Server>,
    // After the servers, which have it as their working directory: fields are dropped in this
    // order.
    _directory: Directory,
}

#[derive(Debug)]
pub(crate) struct Server {
    process: Child,
    port: u16,
}

#[derive(Debug)]
struct Directory(PathBuf);

impl Servers {
    pub(crate) async fn start(count: usize) -> Result<Self, Problem> {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        let number = STARTED.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("redquorum-bench-{}-{number}", std::process::id()));
        std::fs::create_dir(&path)?;
        let directory = Directory(path);
        let mut servers = Vec::new();
        for _ in 0..count {
            servers.push(Server::start(&directory.0).await?);
        }
        Ok(Self { servers, _directory: directory })
    }

    pub(crate) fn urls(&self) -> Vec<String> {
        self.servers.iter().map(Server::url).collect()
    }

    pub(crate) fn all(&self) -> &[Server] {
        &self.servers
    }

    /// Our client's settings, all of them defaults, except that the servers may be new.
    pub(crate) fn builder(&self) -> QuorumBuilder {
        Quorum::builder().nodes(self.urls()).admit_new_nodes()
    }

    pub(crate) async fn ours(&self) -> Result<Quorum, Problem> {
        Ok(self.builder().connect().await?)
    }

    /// rslock's client, with its defaults. It connects at its first use.
    pub(crate) fn rival(&self) -> LockManager {
        LockManager::new(self.urls())
    }

    /// Begins to log calls that take longer than a tenth of a millisecond.
    pub(crate) async fn log_long_calls(&self) -> Result<(), Problem> {
        for server in &self.servers {
            let mut connection = server.connection().await?;
            for (name, value) in [("slowlog-log-slower-than", 100), ("slowlog-max-len", 100_000)] {
                let mut command = redis::cmd("CONFIG");
                command.arg("SET").arg(name).arg(value).exec_async(&mut connection).await?;
            }
            redis::cmd("SLOWLOG").arg("RESET").exec_async(&mut connection).await?;
        }
        Ok(())
    }

    /// The longest call of those that were logged, zero if there is none.
    pub(crate) async fn longest_call(&self) -> Result<Duration, Problem> {
        type Entry = (u64, u64, u64, redis::Value, redis::Value, redis::Value);
        let mut longest = 0;
        for server in &self.servers {
            let mut connection = server.connection().await?;
            let calls: Vec<Entry> =
                redis::cmd("SLOWLOG").arg("GET").arg(-1).query_async(&mut connection).await?;
            longest = calls.iter().map(|(_, _, microseconds, ..)| *microseconds).fold(longest, u64::max);
        }
        Ok(Duration::from_micros(longest))
    }

    /// How often all servers together have executed these commands, those inside of scripts
    /// included.
    pub(crate) async fn calls(&self, commands: &[&str]) -> Result<u64, Problem> {
        let mut sum = 0;
        for server in &self.servers {
            let mut connection = server.connection().await?;
            let info: String = redis::cmd("INFO").arg("commandstats").query_async(&mut connection).await?;
            sum += info.lines().filter_map(|line| calls_of(line, commands)).sum::<u64>();
        }
        Ok(sum)
    }

    /// The microseconds that each server has spent on calls of clients; what runs inside of a script is
    /// in the time of that.
    pub(crate) async fn spent(&self) -> Result<Vec<u64>, Problem> {
        let mut spent = Vec::new();
        for server in &self.servers {
            let mut connection = server.connection().await?;
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

/// The calls in a line such as `cmdstat_evalsha:calls=4,usec=..`, if it is of one of these
/// commands.
fn calls_of(line: &str, commands: &[&str]) -> Option<u64> {
    let (name, rest) = line.trim_end().strip_prefix("cmdstat_")?.split_once(":calls=")?;
    let (calls, _) = rest.split_once(',')?;
    commands.contains(&name).then(|| calls.parse().ok())?
}

impl Server {
    async fn start(directory: &Path) -> Result<Self, Problem> {
        let mut problem = "no port was tried".into();
        for _ in 0..PORTS_TO_TRY {
            let port = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port();
            let mut server = Self { process: spawn(directory, port)?, port };
            match server.answers().await {
                Ok(()) => return Ok(server),
                Err(reason) => problem = reason,
            }
        }
        Err(problem)
    }

    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// A multiplexed connection of the redis crate, as plain as it can be: nothing limits or delays
    /// a call.
    pub(crate) async fn connection(&self) -> Result<MultiplexedConnection, Problem> {
        let client = Client::open(self.url())?;
        let tcp = client.get_connection_info().tcp_settings().clone().set_nodelay(true);
        let client = Client::open(client.get_connection_info().clone().set_tcp_settings(tcp))?;
        let config = AsyncConnectionConfig::new().set_response_timeout(None);
        Ok(client.get_multiplexed_async_connection_with_config(&config).await?)
    }

    /// Everything that the server is told from now on, as it shows it itself.
    pub(crate) async fn monitor(&self) -> Result<redis::aio::Monitor, Problem> {
        Ok(Client::open(self.url())?.get_async_monitor().await?)
    }

    /// Stops the server where it stands: it accepts everything and answers nothing.
    pub(crate) fn freeze(&self) -> Result<(), Problem> {
        Ok(kill_process(Pid::from_child(&self.process), Signal::STOP)?)
    }

    pub(crate) fn thaw(&self) -> Result<(), Problem> {
        Ok(kill_process(Pid::from_child(&self.process), Signal::CONT)?)
    }

    async fn answers(&mut self) -> Result<(), Problem> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(status) = self.process.try_wait()? {
                return Err(format!("redis-server on port {} ended with {status}", self.port).into());
            }
            if self.connection().await.is_ok() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Err(format!("redis-server on port {} does not answer", self.port).into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Starts a server that the kernel kills together with this process, where there is `setpriv`. A
/// worker of the runtime starts it, whose thread lives until the end.
fn spawn(directory: &Path, port: u16) -> Result<Child, Problem> {
    let port = port.to_string();
    let words = ["--bind", "127.0.0.1", "--port", &port, "--save", "", "--appendonly", "no"];
    let start = |mut command: Command| {
        command.args(words).arg("--dir").arg(directory);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
    };
    let mut bound_to_us = Command::new("setpriv");
    bound_to_us.args(["--pdeathsig", "KILL", "--", "redis-server"]);
    start(bound_to_us)
        .or_else(|_| start(Command::new("redis-server")))
        .map_err(|error| format!("redis-server cannot be started ({error}): is it installed?").into())
}
