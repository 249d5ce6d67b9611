//! The figures of a server, read by `INFO`.

use std::{collections::HashMap, time::Duration};

use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection};
use tokio::time::{Instant, sleep};

use crate::Problem;

/// The time limit of a connection and of an answer. A server under load needs several seconds.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// The time limit of a reading, with all repetitions.
const PATIENCE: Duration = Duration::from_secs(60);

/// The commands that run the script of the library, or another script.
const SCRIPT_COMMANDS: [&str; 3] = ["evalsha", "eval", "evalsha_ro"];

/// Reads the figures of one server on a connection of its own.
#[derive(Debug)]
pub(crate) struct Gauge {
    url: String,
    connection: Option<MultiplexedConnection>,
}

/// The figures of a server since its start.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    run_id: String,
    dials: f64,
    bytes_in: f64,
    /// The processor time.
    seconds: f64,
    /// The calls of scripts.
    calls: f64,
    /// The bytes of memory in use.
    memory: f64,
}

/// The figures of all servers between two readings: the calls of all servers together, and otherwise the figure of the
/// server with the largest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) dials: f64,
    pub(crate) bytes_in: f64,
    pub(crate) seconds: f64,
    pub(crate) calls: f64,
    /// The growth of the memory in use, in bytes.
    pub(crate) memory: f64,
}

impl Gauge {
    pub(crate) fn of(url: String) -> Self {
        Self { url, connection: None }
    }

    /// Returns the figures of the server, also if the server needs a while to answer.
    ///
    /// # Errors
    ///
    /// If the server does not answer in time.
    pub(crate) async fn read(&mut self) -> Result<Reading, Problem> {
        let begin = Instant::now();
        loop {
            match self.info("all").await {
                Ok(info) => return Ok(Reading::parse(&info)),
                Err(problem) if begin.elapsed() > PATIENCE => return Err(problem),
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Returns the number of calls of scripts since the start of the server. This costs the server less than a whole
    /// reading.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub(crate) async fn calls(&mut self) -> Result<f64, Problem> {
        let info = self.info("commandstats").await?;
        Ok(script_calls(&fields(&info)))
    }

    /// Returns the number of connections beside this one.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub(crate) async fn connections(&mut self) -> Result<usize, Problem> {
        let info = self.info("clients").await?;
        Ok((number(&fields(&info), "connected_clients") as usize).saturating_sub(1))
    }

    /// Closes all connections beside this one.
    ///
    /// # Errors
    ///
    /// If the server does not answer.
    pub(crate) async fn close_connections(&mut self) -> Result<(), Problem> {
        for kind in ["normal", "pubsub"] {
            let mut command = redis::cmd("CLIENT");
            let connection = self.connection().await?;
            command.arg("KILL").arg("TYPE").arg(kind).exec_async(connection).await?;
        }
        Ok(())
    }

    async fn info(&mut self, section: &str) -> Result<String, Problem> {
        let info = redis::cmd("INFO").arg(section).query_async(self.connection().await?).await;
        if info.is_err() {
            // The server has restarted, or does not answer.
            self.connection = None;
        }
        Ok(info?)
    }

    async fn connection(&mut self) -> Result<&mut MultiplexedConnection, Problem> {
        if self.connection.is_none() {
            let config = AsyncConnectionConfig::new()
                .set_connection_timeout(Some(ANSWER_TIMEOUT))
                .set_response_timeout(Some(ANSWER_TIMEOUT));
            let client = Client::open(&*self.url)?;
            self.connection = Some(client.get_multiplexed_async_connection_with_config(&config).await?);
        }
        self.connection.as_mut().ok_or_else(|| "no connection".into())
    }
}

impl Reading {
    /// Parses the reply of `INFO all`.
    fn parse(info: &str) -> Self {
        let fields = fields(info);
        let number = |name| number(&fields, name);
        // A PING is the only command of a connection by which the fixture waits for a server. Together with the
        // connection of the gauge, these are the connections that are no dials of clients.
        let own = calls(&fields, "ping") + 1.0;
        Self {
            run_id: fields.get("run_id").copied().unwrap_or_default().to_owned(),
            dials: number("total_connections_received") - own,
            bytes_in: number("total_net_input_bytes"),
            seconds: number("used_cpu_user") + number("used_cpu_sys"),
            calls: script_calls(&fields),
            memory: number("used_memory"),
        }
    }
}

impl Usage {
    pub(crate) fn between(before: &[Reading], after: &[Reading]) -> Self {
        let mut usage = Self::default();
        for (before, after) in before.iter().zip(after) {
            // A server that was restarted has counted from zero.
            let is_same = before.run_id == after.run_id;
            let since =
                |figure: fn(&Reading) -> f64| figure(after) - if is_same { figure(before) } else { 0.0 };
            usage.dials = usage.dials.max(since(|reading| reading.dials));
            usage.bytes_in = usage.bytes_in.max(since(|reading| reading.bytes_in));
            usage.seconds = usage.seconds.max(since(|reading| reading.seconds));
            usage.calls += since(|reading| reading.calls);
            usage.memory = usage.memory.max(after.memory - before.memory);
        }
        usage
    }
}

fn fields(info: &str) -> HashMap<&str, &str> {
    info.lines().filter_map(|line| line.trim_end().split_once(':')).collect()
}

fn number(fields: &HashMap<&str, &str>, name: &str) -> f64 {
    fields.get(name).and_then(|value| value.parse().ok()).unwrap_or(0.0)
}

fn script_calls(fields: &HashMap<&str, &str>) -> f64 {
    SCRIPT_COMMANDS.iter().map(|command| calls(fields, command)).sum()
}

/// Returns the number of executions of a command, from a line such as `cmdstat_evalsha:calls=4,usec=..`.
fn calls(fields: &HashMap<&str, &str>, command: &str) -> f64 {
    let statistics = fields.get(&*format!("cmdstat_{command}")).copied().unwrap_or_default();
    let calls = statistics.strip_prefix("calls=").and_then(|rest| rest.split(',').next()?.parse().ok());
    calls.unwrap_or(0.0)
}
