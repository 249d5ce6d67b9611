//! One server of a cluster, with its faults and its content.

use std::time::Duration;

use redis::{
    AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult, Value, aio::MultiplexedConnection,
};
use tokio::sync::Mutex;

use super::container::ServerContainer;
use super::eventually::{POLL_INTERVAL, eventually};
use super::hash_tag;
use super::kind::Kind;
use super::options::ServerOptions;
use super::reaper::Reaper;
use super::server_process::{PATIENCE, ServerProcess, port::Port};

/// The number of attempts to start a server. An attempt fails if another program takes the reserved port
/// first.
const MAX_START_ATTEMPTS: usize = 5;

/// The pause between two queries whether a Redis Cluster executes commands.
const CLUSTER_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// An independent Redis server, whose address stays the same for its whole life.
#[derive(Debug)]
pub struct Server {
    host: Mutex<Host>,
    options: ServerOptions,
    port: Port,
}

/// How the server runs.
#[derive(Debug)]
enum Host {
    Process(ServerProcess),
    Container(Box<ServerContainer>),
}

impl Server {
    pub(super) async fn start(kind: Kind, options: &ServerOptions, reaper: &Reaper) -> Self {
        let mut failure = String::new();
        for _ in 0..MAX_START_ATTEMPTS {
            match Self::try_start(kind, options, reaper).await {
                Ok(server) => return server,
                Err(reason) => failure = reason,
            }
        }
        panic!("no server after {MAX_START_ATTEMPTS} tries, the last: {failure}");
    }

    async fn try_start(kind: Kind, options: &ServerOptions, reaper: &Reaper) -> Result<Self, String> {
        let options = match kind {
            Kind::RedisClusters => options.clone().into_redis_cluster(),
            Kind::Processes | Kind::Containers => options.clone(),
        };
        let port = if options.has_bus_port() { Port::reserve_with_bus_port() } else { Port::reserve() };
        let host = match kind {
            Kind::Processes | Kind::RedisClusters => {
                let directory = reaper.directory().join(port.number().to_string());
                Host::Process(ServerProcess::start(directory, options.arguments(port.number())))
            }
            Kind::Containers => Host::Container(Box::new(
                ServerContainer::start(reaper.name(), &options, port.number()).await?,
            )),
        };
        let server = Self { host: Mutex::new(host), options, port };
        let mut host = server.host.lock().await;
        server.wait_for_answer(&mut host).await?;
        drop(host);
        Ok(server)
    }

    /// Returns the port of the server.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the URL by which the server is a node, with its password if it has one.
    pub fn url(&self) -> String {
        self.options.url(self.port())
    }

    /// Returns [`url`](Self::url) with the port of a proxy that forwards to the server.
    pub(super) fn url_through(&self, port: u16) -> String {
        self.options.url(port)
    }

    /// Returns the address of the node in reports: the host and the port, and in a Redis Cluster the hash tag.
    pub fn address(&self) -> String {
        let tag = if self.options.is_redis_cluster() { "/redquorum" } else { "" };
        format!("127.0.0.1:{}{tag}", self.port())
    }

    /// Returns the URL by which a client of the redis crate connects to the server.
    pub fn plain_url(&self) -> String {
        self.options.plain_url(self.port())
    }

    /// Returns [`plain_url`](Self::plain_url) with the port of a proxy that forwards to the server.
    pub(super) fn plain_url_through(&self, port: u16) -> String {
        self.options.plain_url(port)
    }

    /// Returns the process id of a server that runs as a process.
    pub async fn pid(&self) -> Option<u32> {
        match &*self.host.lock().await {
            Host::Process(process) => Some(process.pid()),
            Host::Container(_) => None,
        }
    }

    /// Stops the server with SIGSTOP or by a paused container. The system still accepts connections, but they
    /// hang.
    pub async fn freeze(&self) {
        match &*self.host.lock().await {
            Host::Process(process) => {
                process.freeze();
                eventually(PATIENCE, "the server process is frozen", async || process.is_frozen()).await;
            }
            Host::Container(container) => container.freeze().await,
        }
    }

    /// Continues a frozen server. The server then answers the requests that arrived while the server was frozen.
    pub async fn thaw(&self) {
        match &*self.host.lock().await {
            Host::Process(process) => process.thaw(),
            Host::Container(container) => container.thaw().await,
        }
    }

    /// Kills the server with SIGKILL, even if it is frozen. Its address refuses connections afterwards.
    pub async fn kill(&self) {
        match &mut *self.host.lock().await {
            Host::Process(process) => process.kill(),
            Host::Container(container) => container.kill().await,
        }
    }

    /// Kills the server if it runs, and starts it again at the same address without data.
    pub async fn restart_empty(&self) {
        let mut host = self.host.lock().await;
        match &mut *host {
            Host::Process(process) => process.restart_empty(),
            Host::Container(container) => container.restart_empty().await.expect("the server starts again"),
        }
        self.wait_for_answer(&mut host).await.expect("the server starts again");
    }

    /// Kills the server if it runs, and starts it again at the same address with its data on disk.
    ///
    /// # Panics
    ///
    /// If the server was started without persistence.
    pub async fn restart_keeping_data(&self) {
        assert!(
            self.options.is_persistent(),
            "only a server with `ServerOptions::persistent` can keep its data"
        );
        let mut host = self.host.lock().await;
        match &mut *host {
            Host::Process(process) => process.restart_keeping_data(),
            Host::Container(container) => container.restart_keeping_data().await,
        }
        self.wait_for_answer(&mut host).await.expect("the server starts again");
    }

    /// Delays writes for `duration`, while reads are answered (`CLIENT PAUSE ... WRITE`, which also delays
    /// scripts that may write).
    pub async fn pause_writes(&self, duration: Duration) {
        let milliseconds = duration.as_millis().to_string();
        self.command(&["CLIENT", "PAUSE", &milliseconds, "WRITE"]).await;
    }

    /// Runs a command on a new connection, beside the clients of the test, and returns the reply.
    ///
    /// The names of keys and channels are those of a standalone server. For a Redis Cluster of one server, the hash tag is
    /// added, so that a test sends the same command to both.
    ///
    /// # Errors
    ///
    /// If the server refuses the connection or the command, or does not answer.
    pub async fn try_query<T: FromRedisValue>(&self, cmd: &Cmd) -> RedisResult<T> {
        let mut connection = self.connect().await?;
        if self.options.is_redis_cluster() {
            return hash_tag::add_to(cmd).query_async(&mut connection).await;
        }
        cmd.query_async(&mut connection).await
    }

    /// Runs a command by [`try_query`](Self::try_query) on a server that has to answer.
    pub async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> T {
        self.try_query(cmd).await.unwrap_or_else(|error| panic!("the server at {}: {error}", self.url()))
    }

    /// Runs a command of these words by [`query`](Self::query), for a reply of any type.
    pub async fn command(&self, words: &[&str]) -> Value {
        let mut cmd = Cmd::new();
        cmd.arg(words);
        self.query(&cmd).await
    }

    /// Returns the names of all keys, sorted. In a Redis Cluster, the names are without the hash tag.
    pub async fn keys(&self) -> Vec<String> {
        let keys: Vec<String> = self.query(redis::cmd("KEYS").arg("*")).await;
        let mut keys: Vec<String> = keys.iter().map(|key| hash_tag::remove_from(key)).collect();
        keys.sort();
        keys
    }

    /// Returns the names of all channels with a subscription. In a Redis Cluster, the names are without the hash tag.
    pub async fn channels(&self) -> Vec<String> {
        let channels: Vec<String> = self.query(redis::cmd("PUBSUB").arg("CHANNELS")).await;
        channels.iter().map(|channel| hash_tag::remove_from(channel)).collect()
    }

    /// Returns the text of one section of `INFO`.
    pub async fn info(&self, section: &str) -> String {
        self.query(redis::cmd("INFO").arg(section)).await
    }

    /// Returns one field of a section of `INFO`.
    pub async fn info_field(&self, section: &str, field: &str) -> String {
        let info = self.info(section).await;
        let mut fields = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        let (_, value) = fields.find(|(name, _)| *name == field).expect("INFO has the field");
        value.to_owned()
    }

    /// Returns the `run_id`, which is new after each restart.
    pub async fn run_id(&self) -> String {
        self.info_field("server", "run_id").await
    }

    /// Waits until the server answers PING, and executes commands if the server is a Redis Cluster.
    ///
    /// # Errors
    ///
    /// If the server has ended or does not answer in time.
    async fn wait_for_answer(&self, host: &mut Host) -> Result<(), String> {
        let answer = async {
            loop {
                if let Some(failure) = host.failure().await {
                    return Err(failure);
                }
                if self.try_query::<String>(&redis::cmd("PING")).await.is_ok() {
                    break;
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
            if self.options.is_redis_cluster() {
                self.wait_for_slots()
                    .await
                    .map_err(|error| format!("the cluster at {}: {error}", self.url()))?;
            }
            Ok(())
        };
        let too_late = |_| Err(format!("the server at {} does not answer", self.url()));
        tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(too_late)
    }

    /// Gives all slots to a Redis Cluster of one server, unless the server has them, and waits until the cluster executes
    /// commands.
    ///
    /// The two seconds until then are most of the time of many tests. Therefore all queries use one connection. With a
    /// connection for each query, tests that start clusters would take the processors from the other tests.
    async fn wait_for_slots(&self) -> RedisResult<()> {
        let mut connection = self.connect().await?;
        let mut add = redis::cmd("CLUSTER");
        // A server that has the slots refuses the command.
        drop(add.arg("ADDSLOTSRANGE").arg(0).arg(16_383).query_async::<Value>(&mut connection).await);
        let mut info = redis::cmd("CLUSTER");
        info.arg("INFO");
        while !info.query_async::<String>(&mut connection).await?.contains("cluster_state:ok") {
            tokio::time::sleep(CLUSTER_POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Opens a connection that waits long for each answer.
    async fn connect(&self) -> RedisResult<MultiplexedConnection> {
        let patient = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        Client::open(self.plain_url())?.get_multiplexed_async_connection_with_config(&patient).await
    }
}

impl Host {
    /// Returns why the server has ended, or `None` while it runs.
    async fn failure(&mut self) -> Option<String> {
        match self {
            Self::Process(process) => process.failure(),
            Self::Container(container) => container.failure().await,
        }
    }
}
