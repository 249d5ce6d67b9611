//! One server of a cluster: the faults it can be put through, and what is in it.

use std::time::Duration;

use redis::{AsyncConnectionConfig, Client, Cmd, FromRedisValue, RedisResult, Value};
use tokio::sync::Mutex;

use super::container::ServerContainer;
use super::eventually::{POLL_INTERVAL, eventually};
use super::kind::Kind;
use super::options::ServerOptions;
use super::reaper::Reaper;
use super::server_process::{PATIENCE, ServerProcess, port::Port};

/// How often a server may lose the race for its port before the fixture gives up.
const PORTS_TO_TRY: usize = 5;

/// A Redis server that knows nothing of the others, at an address that it keeps for its whole life.
#[derive(Debug)]
pub struct Server {
    host: Mutex<Host>,
    options: ServerOptions,
    port: Port,
}

/// What the server runs as.
#[derive(Debug)]
enum Host {
    Process(ServerProcess),
    Container(Box<ServerContainer>),
}

impl Server {
    pub(super) async fn start(kind: Kind, options: &ServerOptions, reaper: &Reaper) -> Self {
        let mut failure = String::new();
        for _ in 0..PORTS_TO_TRY {
            match Self::try_start(kind, options, reaper).await {
                Ok(server) => return server,
                Err(reason) => failure = reason,
            }
        }
        panic!("no server after {PORTS_TO_TRY} tries, the last: {failure}");
    }

    async fn try_start(kind: Kind, options: &ServerOptions, reaper: &Reaper) -> Result<Self, String> {
        let port = Port::reserve();
        let host = match kind {
            Kind::Processes => {
                let directory = reaper.directory().join(port.number().to_string());
                Host::Process(ServerProcess::start(directory, options.arguments(port.number())))
            }
            Kind::Containers => Host::Container(Box::new(
                ServerContainer::start(reaper.name(), options, port.number()).await?,
            )),
        };
        let server = Self { host: Mutex::new(host), options: options.clone(), port };
        let mut host = server.host.lock().await;
        server.answers(&mut host).await?;
        drop(host);
        Ok(server)
    }

    /// The port where clients reach the server.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Where clients reach the server, with its password if it has one.
    pub fn url(&self) -> String {
        self.options.url(self.port())
    }

    /// [`url`](Self::url) with another port, behind which something forwards to the server.
    pub(super) fn url_through(&self, port: u16) -> String {
        self.options.url(port)
    }

    /// The process id of a server that runs as a process.
    pub async fn pid(&self) -> Option<u32> {
        match &*self.host.lock().await {
            Host::Process(process) => Some(process.pid()),
            Host::Container(_) => None,
        }
    }

    /// Stops the server where it stands: the system still accepts connections for it, but all of
    /// them hang.
    pub async fn freeze(&self) {
        match &*self.host.lock().await {
            Host::Process(process) => {
                process.freeze();
                eventually(PATIENCE, "the server process is frozen", async || process.is_frozen()).await;
            }
            Host::Container(container) => container.freeze().await,
        }
    }

    /// Lets a frozen server go on; it answers what has reached it meanwhile.
    pub async fn thaw(&self) {
        match &*self.host.lock().await {
            Host::Process(process) => process.thaw(),
            Host::Container(container) => container.thaw().await,
        }
    }

    /// Ends the server with SIGKILL, also a frozen one; its address refuses connections afterwards.
    pub async fn kill(&self) {
        match &mut *self.host.lock().await {
            Host::Process(process) => process.kill(),
            Host::Container(container) => container.kill().await,
        }
    }

    /// Crashes the server if it still runs, and starts it again at the same address without any
    /// data.
    pub async fn restart_empty(&self) {
        let mut host = self.host.lock().await;
        match &mut *host {
            Host::Process(process) => process.restart_empty(),
            Host::Container(container) => container.restart_empty().await.expect("the server starts again"),
        }
        self.answers(&mut host).await.expect("the server starts again");
    }

    /// Crashes the server if it still runs, and starts it again at the same address with what it
    /// has on disk.
    ///
    /// # Panics
    ///
    /// The server was started without persistence, so that there is nothing to keep.
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
        self.answers(&mut host).await.expect("the server starts again");
    }

    /// Makes writes wait for so long while reads are answered (`CLIENT PAUSE ... WRITE`, also
    /// blocks scripts that may write).
    pub async fn pause_writes(&self, duration: Duration) {
        let milliseconds = duration.as_millis().to_string();
        self.command(&["CLIENT", "PAUSE", &milliseconds, "WRITE"]).await;
    }

    /// Runs a command on a connection of its own, for the eyes of the test alone, and returns the
    /// reply.
    ///
    /// # Errors
    ///
    /// The server refuses the connection or the command, or does not answer.
    pub async fn try_query<T: FromRedisValue>(&self, cmd: &Cmd) -> RedisResult<T> {
        let patient = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(PATIENCE))
            .set_response_timeout(Some(PATIENCE));
        let client = Client::open(self.url())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&patient).await?;
        cmd.query_async(&mut connection).await
    }

    /// [`try_query`](Self::try_query) on a server that must answer.
    pub async fn query<T: FromRedisValue>(&self, cmd: &Cmd) -> T {
        self.try_query(cmd).await.unwrap_or_else(|error| panic!("the server at {}: {error}", self.url()))
    }

    /// [`query`](Self::query) with the words of the command as they stand, for any reply.
    pub async fn command(&self, words: &[&str]) -> Value {
        let mut cmd = Cmd::new();
        cmd.arg(words);
        self.query(&cmd).await
    }

    /// The names of all keys in the server, sorted.
    pub async fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.query(redis::cmd("KEYS").arg("*")).await;
        keys.sort();
        keys
    }

    /// The text of one section of `INFO`.
    pub async fn info(&self, section: &str) -> String {
        self.query(redis::cmd("INFO").arg(section)).await
    }

    /// One field of a section of `INFO`.
    pub async fn info_field(&self, section: &str, field: &str) -> String {
        let info = self.info(section).await;
        let mut fields = info.lines().filter_map(|line| line.trim_end().split_once(':'));
        let (_, value) = fields.find(|(name, _)| *name == field).expect("INFO has the field");
        value.to_owned()
    }

    /// What tells one life of a server from the next: a new one after every restart.
    pub async fn run_id(&self) -> String {
        self.info_field("server", "run_id").await
    }

    /// Waits until the server answers PING.
    async fn answers(&self, host: &mut Host) -> Result<(), String> {
        let answer = async {
            loop {
                if let Some(failure) = host.failure().await {
                    return Err(failure);
                }
                if self.try_query::<String>(&redis::cmd("PING")).await.is_ok() {
                    return Ok(());
                }
                tokio::time::sleep(POLL_INTERVAL).await;
            }
        };
        let too_late = |_| Err(format!("the server at {} does not answer", self.url()));
        tokio::time::timeout(PATIENCE, answer).await.unwrap_or_else(too_late)
    }
}

impl Host {
    /// Why the server is no longer running, or nothing while it runs.
    async fn failure(&mut self) -> Option<String> {
        match self {
            Self::Process(process) => process.failure(),
            Self::Container(container) => container.failure().await,
        }
    }
}
