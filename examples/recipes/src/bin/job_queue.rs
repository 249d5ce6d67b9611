//! Jobs that continue with the lock of the web request that queued them. The queue is a Redis stream with a consumer
//! group, which delivers a job at least once.
//!
//! ```text
//! web request                    queue                          worker
//!   lock the invoice
//!   check the invoice
//!   lock ──► ticket
//!   job with the ticket ─────► XADD ──────► XREADGROUP ───────► redeem the ticket ──► lock
//!   last write, if no                  └──► XAUTOCLAIM,         charge, under the token of the lock
//!   worker has been here                    if not              unlock
//!                                           acknowledged ◄───── acknowledge: XACK, XDEL
//! ```
//!
//! If a worker redeems the ticket, no other client has locked the invoice since the check of the request. Therefore the
//! amount that the customer has confirmed is still the amount of the invoice. Each access to the database has the
//! fencing token of a lease, and the database refuses a token that is smaller than the largest token before.
//!
//! **A spent ticket**: `redeem` returns `None` if the queue delivers a job twice, if the worker of an earlier delivery
//! has died, or if the job waited for longer than the ticket lives. The worker does not have to distinguish these cases.
//! The worker locks the invoice anew, and reads the state in the database. If a second worker has the lock, the job stays
//! in the queue, and is delivered again after `--idle`. If the invoice is charged, the worker acknowledges the job.
//! Otherwise the worker compares the amount with the confirmed amount, and charges the invoice. If workers acknowledged
//! jobs with spent tickets at once, the job of a worker that was killed would be lost.
//!
//! **A worker that is killed** keeps the invoice for the ttl of the lease. The queue then delivers the job to a second
//! worker, which repeats all steps. A write to the database has a token. A payment has no token, because the provider of
//! payments does not compare tokens. Therefore a worker first asks the provider whether any job has paid the invoice. If
//! the invoice is paid, the worker records the payment, even if the amount has changed since.
//!
//! **Between this question and the payment**, a worker may stand still until the lease has ended, and a second worker may
//! pay. The first worker then pays nothing, because the loss of the lease stops the work. But a request to pay that the
//! first worker has sent before may reach the provider later. The requests of one job have one idempotency key, so the
//! provider executes one of them. The requests of two jobs have different keys: the customer pays twice if, while the
//! request of one job is delayed, the lease of that job ends, and the customer confirms the invoice again.
//!
//! The queue is a separate Redis server with persistence, and no node of the quorum, for three reasons. The quorum
//! tolerates a node that loses data, and a queue does not tolerate the loss of jobs. Blocking reads and long lists would
//! delay the locks on a node. A job contains the secret of its ticket, which users of a node must not read: permit only
//! the service and the workers to use the queue.
//!
//! Nodes and settings come from a file or the environment. Make the quorum once with `redquorum init`, and then run:
//!
//! ```text
//! export REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3
//! export QUEUE=redis://10.0.0.9 DATABASE='sqlite:invoices.db?mode=rwc'
//! cargo run -p redquorum-recipes --bin job_queue -- work &
//! cargo run -p redquorum-recipes --bin job_queue -- serve --listen 127.0.0.1:8080
//! curl -X POST http://127.0.0.1:8080/invoices/42/charge
//! ```

#![expect(clippy::print_stdout, reason = "the example prints what happens")]
#![expect(clippy::disallowed_methods, reason = "a sleep stands for work, and no lease depends on its length")]

use std::{net::SocketAddr, num::ParseFloatError, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use axum::{
    Router,
    extract::{Path, State},
    http::StatusCode,
    routing::post,
};
use clap::{Args, Parser, Subcommand};
use redis::{
    AsyncCommands, AsyncConnectionConfig, Client, RedisResult,
    aio::MultiplexedConnection,
    streams::{StreamAutoClaimOptions, StreamAutoClaimReply, StreamId, StreamReadOptions, StreamReadReply},
};
use redquorum::{Error, FencingToken, LockGuard, LockOptions, Quorum, RedLock, Ticket, settings};
use sqlx::{SqlitePool, sqlite::SqlitePoolOptions};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    time::sleep,
};

/// The stream, and the group of the workers. The group distributes the jobs among its workers.
const STREAM: &str = "example:jobs";
const GROUP: &str = "workers";

/// The time for which a request waits for the invoice.
const REQUEST_PATIENCE: Duration = Duration::from_secs(2);

/// The time for which a worker waits for the next job, before the worker looks for jobs of dead workers.
const POLL: Duration = Duration::from_millis(500);

/// Longer than a blocking read takes.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

const TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS invoices (
        id INTEGER PRIMARY KEY,
        cents INTEGER NOT NULL,
        state TEXT NOT NULL,
        fence INTEGER NOT NULL DEFAULT 0
    )",
    // Stands for the provider of payments, which executes requests with the same key once.
    "CREATE TABLE IF NOT EXISTS payments (
        key TEXT PRIMARY KEY,
        invoice INTEGER NOT NULL,
        cents INTEGER NOT NULL,
        requests INTEGER NOT NULL
    )",
    "INSERT INTO invoices (id, cents, state) VALUES (42, 1999, 'open') ON CONFLICT DO NOTHING",
];

// A lease may access the row more than once, hence `<=`.
const READ: &str = "UPDATE invoices SET fence = ?1 WHERE id = ?2 AND fence <= ?1 RETURNING cents, state";
const WRITE: &str = "UPDATE invoices SET fence = ?1, state = ?3 WHERE id = ?2 AND fence <= ?1";
const EXISTS: &str = "SELECT COUNT(*) FROM invoices WHERE id = ?1";
const PAID: &str = "SELECT cents FROM payments WHERE invoice = ?1";
const PAY: &str = "INSERT INTO payments (key, invoice, cents, requests) VALUES (?1, ?2, ?3, 1)
    ON CONFLICT (key) DO UPDATE SET requests = requests + 1";

/// Charges invoices by jobs, each of which continues with the lock of its web request.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serves `POST /invoices/{id}/charge`, which queues a job.
    Serve {
        /// Address of the HTTP server; port 0 is any free port.
        #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// Lifetime of tickets, at most `max_ttl`: the time for which a job may wait in the queue.
        #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "60")]
        ticket_ttl: Duration,
        /// Time for which a request stands still before its last write, as in a long garbage collection.
        #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0")]
        pause: Duration,
        #[command(flatten)]
        places: Places,
    },
    /// Works on jobs until SIGTERM.
    Work {
        /// Time after which a job that is not acknowledged is delivered again. A job may take longer.
        #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "30")]
        idle: Duration,
        /// Time for which a worker stands still before a payment, as in a long garbage collection.
        #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0")]
        pause: Duration,
        /// Time that a payment takes.
        #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "0.1")]
        payment: Duration,
        #[command(flatten)]
        places: Places,
    },
}

/// The places of the queue, the database and the settings.
#[derive(Args, Debug)]
struct Places {
    /// Url of the Redis server with the queue, which is no node of the quorum.
    #[arg(long, value_name = "URL", env = "QUEUE")]
    queue: String,
    /// Url of the database, as sqlx expects it.
    #[arg(long, value_name = "URL", env = "DATABASE")]
    database: String,
    /// TOML file with nodes and settings, in place of the file that REDQUORUM_CONFIG names.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match Arguments::parse().command {
        Command::Serve { listen, ticket_ttl, pause, places } => {
            let (quorum, database) = places.open().await?;
            let queue = Client::open(places.queue)?;
            serve(listen, Service { quorum, database, queue, ticket_ttl, pause }).await
        }
        Command::Work { idle, pause, payment, places } => {
            // The handler is installed first, so that an early signal does not kill the process.
            let mut terminate = signal(SignalKind::terminate())?;
            let (quorum, database) = places.open().await?;
            let worker = Worker { quorum: quorum.clone(), database, pause, payment };
            let queue = Queue::open(&places.queue, idle).await?;
            // The drop of a job unlocks the invoice. The job stays in the queue for the next worker.
            let ended = tokio::select! {
                ended = worker.work(queue) => ended,
                _ = terminate.recv() => Ok(()),
            };
            quorum.shutdown().await;
            ended
        }
    }
}

impl Places {
    async fn open(&self) -> anyhow::Result<(Quorum, SqlitePool)> {
        let quorum = settings::load(self.config.as_deref())?.connect().await?;
        let database = SqlitePoolOptions::new().max_connections(1).connect(&self.database).await?;
        for statement in TABLES {
            sqlx::query(statement).execute(&database).await?;
        }
        Ok((quorum, database))
    }
}

/// The web service, as the state of its request handlers.
#[derive(Debug)]
struct Service {
    quorum: Quorum,
    database: SqlitePool,
    queue: Client,
    ticket_ttl: Duration,
    pause: Duration,
}

async fn serve(listen: SocketAddr, service: Service) -> anyhow::Result<()> {
    let listener = TcpListener::bind(listen).await?;
    println!("listening on http://{}", listener.local_addr()?);
    let routes = Router::new().route("/invoices/{id}/charge", post(charge)).with_state(Arc::new(service));
    Ok(axum::serve(listener, routes).await?)
}

async fn charge(State(service): State<Arc<Service>>, Path(invoice): Path<i64>) -> (StatusCode, String) {
    let (status, answer) = service.charge(invoice).await.unwrap_or_else(|error| {
        // The text of an error names servers. Therefore the text is not part of the response.
        println!("invoice {invoice}: {error:#}");
        (StatusCode::SERVICE_UNAVAILABLE, "try again later".to_owned())
    });
    (status, answer + "\n")
}

impl Service {
    /// Locks and checks the invoice, and queues a job with a ticket for the lock.
    async fn charge(&self, invoice: i64) -> anyhow::Result<(StatusCode, String)> {
        let Some(guard) = lock_of(&self.quorum, invoice).try_lock_for(REQUEST_PATIENCE).await? else {
            return Ok((StatusCode::CONFLICT, "the invoice is in use".to_owned()));
        };
        let token = guard.fencing_token();
        let (cents, state) = match read(&self.database, token, invoice).await? {
            ReadAnswer::Invoice { cents, state } => (cents, state),
            ReadAnswer::Refused => return Ok((StatusCode::CONFLICT, "the invoice is in use".to_owned())),
            ReadAnswer::NoInvoice => return Ok((StatusCode::NOT_FOUND, "no invoice".to_owned())),
        };
        if state == "charged" {
            return Ok((StatusCode::OK, "charged already".to_owned()));
        }
        // From here on, the request has no lock.
        let ticket = guard.into_ticket(self.ticket_ttl).await?;
        if let Err(error) = self.add(invoice, cents, &ticket).await {
            // The job may be in the queue nevertheless. Then the worker finds a spent ticket, and locks the invoice anew.
            self.quorum.release(&ticket).await?;
            return Err(error).context("the job is not queued");
        }
        println!("invoice {invoice}: queued");
        sleep(self.pause).await;
        // A worker may have charged the invoice by now. Without the token, this write would replace the state "charged".
        let is_written = write(&self.database, token, invoice, "queued").await?;
        let state = if is_written { "is queued" } else { "is at a worker already" };
        Ok((StatusCode::ACCEPTED, format!("the invoice {state}")))
    }

    async fn add(&self, invoice: i64, cents: i64, ticket: &Ticket) -> anyhow::Result<()> {
        let mut queue = self.queue.get_multiplexed_async_connection().await?;
        let job = [
            ("invoice", invoice.to_string()),
            ("cents", cents.to_string()),
            // The text of the ticket contains a secret.
            ("ticket", ticket.to_string()),
        ];
        let _id: Option<String> = queue.xadd(STREAM, "*", &job).await?;
        Ok(())
    }
}

/// A delivery of a job.
#[derive(Debug)]
struct Job {
    invoice: i64,
    /// The amount that the customer has confirmed.
    cents: i64,
    ticket: Ticket,
}

impl Job {
    /// Returns the job of an entry; `None` if this is no entry of the service.
    fn parse(entry: &StreamId) -> Option<Self> {
        let ticket = entry.get::<String>("ticket")?.parse().ok()?;
        Some(Self { invoice: entry.get("invoice")?, cents: entry.get("cents")?, ticket })
    }
}

/// The end of a delivery.
#[derive(Debug)]
enum Delivery {
    /// Nothing remains to be done.
    Acknowledged,
    /// The job stays in the queue, and is delivered again.
    Later,
}

/// The connection of one worker to the queue.
#[derive(Debug)]
struct Queue {
    connection: MultiplexedConnection,
    /// The name of the worker in the group. Each start of the process has a new name.
    worker: String,
    idle: Duration,
}

impl Queue {
    async fn open(url: &str, idle: Duration) -> anyhow::Result<Self> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(READ_TIMEOUT));
        let client = Client::open(url)?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let created: RedisResult<()> = connection.xgroup_create_mkstream(STREAM, GROUP, "0").await;
        match created {
            Err(error) if error.code() != Some("BUSYGROUP") => return Err(error.into()),
            _ => {}
        }
        let worker = format!("{}:{}", std::process::id(), connection_id(&mut connection).await?);
        Ok(Self { connection, worker, idle })
    }

    /// Returns an entry that was delivered and not acknowledged in time, or else a new entry.
    async fn next(&mut self) -> anyhow::Result<Option<StreamId>> {
        let idle = u64::try_from(self.idle.as_millis())?;
        let one = StreamAutoClaimOptions::default().count(1);
        let claimed: StreamAutoClaimReply =
            self.connection.xautoclaim_options(STREAM, GROUP, &*self.worker, idle, "0-0", one).await?;
        if let Some(entry) = claimed.claimed.into_iter().next() {
            println!("a job is delivered again");
            return Ok(Some(entry));
        }
        let wait = usize::try_from(POLL.as_millis())?;
        let one = StreamReadOptions::default().group(GROUP, &*self.worker).count(1).block(wait);
        let read: Option<StreamReadReply> = self.connection.xread_options(&[STREAM], &[">"], &one).await?;
        let streams = read.into_iter().flat_map(|read| read.keys);
        Ok(streams.flat_map(|stream| stream.ids).next())
    }

    /// Acknowledges and deletes the entry. A job contains a secret, which must not stay in the stream.
    async fn acknowledge(&mut self, entry: &StreamId) -> anyhow::Result<()> {
        let ids = [&*entry.id];
        let mut both = redis::pipe();
        both.atomic().xack(STREAM, GROUP, &ids).ignore().xdel(STREAM, &ids).ignore();
        Ok(both.query_async(&mut self.connection).await?)
    }
}

async fn connection_id(connection: &mut MultiplexedConnection) -> RedisResult<u64> {
    redis::cmd("CLIENT").arg("ID").query_async(connection).await
}

/// A worker, which works on one job at a time.
#[derive(Debug)]
struct Worker {
    quorum: Quorum,
    database: SqlitePool,
    pause: Duration,
    payment: Duration,
}

impl Worker {
    async fn work(&self, mut queue: Queue) -> anyhow::Result<()> {
        println!("waiting for jobs");
        loop {
            let Some(entry) = queue.next().await? else { continue };
            let Some(job) = Job::parse(&entry) else {
                println!("an entry is no job, and is deleted");
                queue.acknowledge(&entry).await?;
                continue;
            };
            match self.deliver(&job).await {
                Ok(Delivery::Acknowledged) => queue.acknowledge(&entry).await?,
                Ok(Delivery::Later) => {}
                // The job stays in the queue: no quorum answers, or the lease was lost during the work.
                Err(error) if is_passing(&error) => println!("invoice {}: {error:#}", job.invoice),
                Err(error) => return Err(error),
            }
        }
    }

    async fn deliver(&self, job: &Job) -> anyhow::Result<Delivery> {
        let invoice = job.invoice;
        if let Some(guard) = self.quorum.redeem(&job.ticket, LockOptions::new()).await? {
            println!("invoice {invoice}: redeemed under token {}", guard.fencing_token());
            // Since the customer has confirmed the amount, no other client has held the invoice.
            return self.charge(job, guard, true).await;
        }
        println!("invoice {invoice}: the ticket is spent");
        match lock_of(&self.quorum, invoice).try_lock().await? {
            Some(guard) => {
                println!("invoice {invoice}: locked anew under token {}", guard.fencing_token());
                self.charge(job, guard, false).await
            }
            None => {
                println!("invoice {invoice}: another worker has it");
                Ok(Delivery::Later)
            }
        }
    }

    /// Charges an invoice that is not charged yet. The work stops if the lease is lost.
    async fn charge(&self, job: &Job, guard: LockGuard, is_confirmed: bool) -> anyhow::Result<Delivery> {
        let work = self.charge_under(job, guard.fencing_token(), is_confirmed);
        let delivery = guard.while_valid(work).await??;
        guard.unlock().await?;
        Ok(delivery)
    }

    async fn charge_under(
        &self,
        job: &Job,
        token: FencingToken,
        is_confirmed: bool,
    ) -> anyhow::Result<Delivery> {
        let Job { invoice, cents, .. } = *job;
        // The first access records the token, so that the database refuses late writes of earlier holders.
        let (present, state) = match read(&self.database, token, invoice).await? {
            ReadAnswer::Invoice { cents, state } => (cents, state),
            ReadAnswer::Refused => {
                println!("invoice {invoice}: token {token} is refused");
                return Ok(Delivery::Later);
            }
            ReadAnswer::NoInvoice => {
                println!("invoice {invoice}: deleted, the job is deleted, too");
                return Ok(Delivery::Acknowledged);
            }
        };
        if state == "charged" {
            println!("invoice {invoice}: charged already");
            return Ok(Delivery::Acknowledged);
        }
        // A worker may have been killed after the payment, even before the customer confirmed this job.
        if let Some(paid) = paid(&self.database, invoice).await? {
            println!("invoice {invoice}: {paid} cents are paid already");
            return self.record(token, invoice, "charged").await;
        }
        if !is_confirmed && present != cents {
            println!("invoice {invoice}: the amount has changed, the customer has to confirm it");
            return self.record(token, invoice, "open").await;
        }
        println!("invoice {invoice}: no payment yet");
        sleep(self.pause).await;
        // A job has one ticket, so the id of the ticket is the same in each delivery of the job.
        let key = job.ticket.id().to_string();
        sqlx::query(PAY).bind(key).bind(invoice).bind(cents).execute(&self.database).await?;
        println!("invoice {invoice}: the payment has begun");
        sleep(self.payment).await;
        self.record(token, invoice, "charged").await
    }

    /// Writes the state in which the job leaves the invoice.
    async fn record(&self, token: FencingToken, invoice: i64, state: &str) -> anyhow::Result<Delivery> {
        if !write(&self.database, token, invoice, state).await? {
            println!("invoice {invoice}: token {token} is refused");
            return Ok(Delivery::Later);
        }
        println!("invoice {invoice}: {state} under token {token}");
        Ok(Delivery::Acknowledged)
    }
}

/// Whether the error may be gone at the next delivery.
fn is_passing(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(Error::NoQuorum(_) | Error::LeaseLost(_)))
}

fn lock_of(quorum: &Quorum, invoice: i64) -> RedLock {
    quorum.red_lock(format!("example:invoice:{invoice}"))
}

/// The database's answer to a read under a token.
#[derive(Debug)]
enum ReadAnswer {
    Invoice {
        cents: i64,
        state: String,
    },
    /// The row has a larger token.
    Refused,
    NoInvoice,
}

/// Records the token, so that smaller tokens are refused from now on, and returns the amount and the state.
async fn read(database: &SqlitePool, token: FencingToken, invoice: i64) -> sqlx::Result<ReadAnswer> {
    let read = sqlx::query_as(READ).bind(i64::from(token)).bind(invoice);
    if let Some((cents, state)) = read.fetch_optional(database).await? {
        return Ok(ReadAnswer::Invoice { cents, state });
    }
    let rows: i64 = sqlx::query_scalar(EXISTS).bind(invoice).fetch_one(database).await?;
    Ok(if rows == 0 { ReadAnswer::NoInvoice } else { ReadAnswer::Refused })
}

/// Returns the amount that the provider of payments has received for the invoice; `None` without a payment.
async fn paid(database: &SqlitePool, invoice: i64) -> sqlx::Result<Option<i64>> {
    sqlx::query_scalar(PAID).bind(invoice).fetch_optional(database).await
}

/// Writes the state. Returns whether the database accepted the write: if the row has a larger token, or is deleted, the
/// database refuses the write.
async fn write(database: &SqlitePool, token: FencingToken, invoice: i64, state: &str) -> sqlx::Result<bool> {
    let write = sqlx::query(WRITE).bind(i64::from(token)).bind(invoice).bind(state);
    Ok(write.execute(database).await?.rows_affected() == 1)
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|error: ParseFloatError| error.to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}
