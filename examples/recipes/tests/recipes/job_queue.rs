//! Tests of `job_queue` with a web service, workers, a queue, and a database: jobs that are delivered twice, workers that
//! are killed or stopped, and late writes of the web request.

use std::sync::{Arc, Mutex};

use redis::{
    cmd,
    streams::{StreamPendingReply, StreamRangeReply},
};
use redquorum::{LockOptions, Quorum};
use redquorum_tests::{Cluster, eventually};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::{Connection, SqliteConnection};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
    process::Child,
    task::JoinHandle,
    time::timeout,
};

use super::process::{SOON, file, nodes, program, quorum};

const LOCK: &str = "example:invoice:42";
const STREAM: &str = "example:jobs";

/// The ttl of the locks of services and workers.
const TTL: &str = "3s";

/// The table as the program creates it.
const INVOICES: &str = "CREATE TABLE invoices (
    id INTEGER PRIMARY KEY, cents INTEGER NOT NULL, state TEXT NOT NULL, fence INTEGER NOT NULL DEFAULT 0
)";
const FORGET: &str =
    "CREATE TRIGGER forget AFTER UPDATE ON invoices BEGIN UPDATE invoices SET fence = 0; END";

/// The servers of the quorum, the server of the queue, and the url of the database.
struct Places {
    nodes: Cluster,
    queue: Cluster,
    database: String,
}

/// The invoice in the database, and the number of requests to the provider of payments.
#[derive(Debug, PartialEq, Eq)]
struct Invoice {
    state: String,
    fence: i64,
    payments: i64,
}

impl Places {
    async fn open() -> Self {
        let (nodes, queue) = tokio::join!(quorum(3), Cluster::start(1));
        let database = file(&nodes, "invoices.db");
        Self { nodes, queue, database }
    }

    async fn execute(&self, statement: &'static str) {
        let mut database = SqliteConnection::connect(&self.database).await.unwrap();
        sqlx::query(statement).execute(&mut database).await.unwrap();
        database.close().await.unwrap();
    }

    async fn invoice(&self) -> Invoice {
        let mut database = SqliteConnection::connect(&self.database).await.unwrap();
        let invoice = sqlx::query_as("SELECT state, fence FROM invoices WHERE id = 42");
        let (state, fence) = invoice.fetch_one(&mut database).await.unwrap();
        let payments = sqlx::query_scalar("SELECT COALESCE(SUM(requests), 0) FROM payments");
        let payments = payments.fetch_one(&mut database).await.unwrap();
        database.close().await.unwrap();
        Invoice { state, fence, payments }
    }

    fn start(&self, arguments: &[&str]) -> Running {
        let mut command = program(env!("CARGO_BIN_EXE_job_queue"));
        command.args(arguments).args(["--queue", &self.queue.server(0).url(), "--database", &self.database]);
        command.env("REDQUORUM_NODES", nodes(&self.nodes)).env("REDQUORUM_TTL", TTL);
        Running::new(command.spawn().unwrap())
    }

    async fn serve(&self, arguments: &[&str]) -> Running {
        let service = self.start(&[&["serve", "--listen", "127.0.0.1:0"], arguments].concat());
        service.line("listening on ").await;
        service
    }

    /// Starts a worker. A job that is not acknowledged in a second is delivered again.
    async fn work(&self, payment: &str) -> Running {
        self.work_with(&["--payment", payment]).await
    }

    async fn work_with(&self, arguments: &[&str]) -> Running {
        let worker = self.start(&[&["work", "--idle", "1"], arguments].concat());
        worker.line("waiting for jobs").await;
        worker
    }

    /// Waits until each job is acknowledged and deleted.
    async fn all_done(&self) {
        let queue = self.queue.server(0);
        let is_empty = async || queue.query::<u64>(cmd("XLEN").arg(STREAM)).await == 0;
        eventually(SOON, "each job is acknowledged", is_empty).await;
        let pending = queue.query::<StreamPendingReply>(cmd("XPENDING").arg(STREAM).arg("workers")).await;
        assert_eq!(pending.count(), 0);
    }

    async fn client(&self) -> Quorum {
        Quorum::builder().nodes(self.nodes.urls()).connect().await.unwrap()
    }
}

/// A running program, and the lines that it has printed.
struct Running {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Running {
    fn new(mut child: Child) -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let mut printed = BufReader::new(child.stdout.take().unwrap()).lines();
        let read = Arc::clone(&lines);
        tokio::spawn(async move {
            while let Ok(Some(line)) = printed.next_line().await {
                read.lock().unwrap().push(line);
            }
        });
        Self { child, lines }
    }

    /// Returns the ends of the lines that begin with this text.
    fn lines(&self, begin: &str) -> Vec<String> {
        let lines = self.lines.lock().unwrap();
        lines.iter().filter_map(|line| line.strip_prefix(begin)).map(str::to_owned).collect()
    }

    /// Waits for a line that begins with this text, and returns its end.
    async fn line(&self, begin: &str) -> String {
        eventually(SOON, begin, async || !self.lines(begin).is_empty()).await;
        self.lines(begin).remove(0)
    }

    fn send(&self, signal: Signal) {
        let pid = Pid::from_raw(self.child.id().unwrap().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Sends a request to charge the invoice. Returns the status and the answer.
    async fn request(&self) -> JoinHandle<(u16, String)> {
        let url = self.line("listening on http://").await;
        tokio::spawn(async move {
            let mut connection = TcpStream::connect(&url).await.unwrap();
            let head = format!("POST /invoices/42/charge HTTP/1.1\r\nHost: {url}\r\n");
            let request = head + "Content-Length: 0\r\nConnection: close\r\n\r\n";
            connection.write_all(request.as_bytes()).await.unwrap();
            let mut response = String::new();
            let read = timeout(SOON, connection.read_to_string(&mut response)).await;
            read.expect("the service did not answer before the deadline").unwrap();
            let (head, body) = response.split_once("\r\n\r\n").unwrap();
            (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
        })
    }
}

/// Queues a job, and stops the service before the last write of the request. The service continues when a worker has
/// charged the invoice. Returns the answer to the request.
async fn late_write(places: &Places) -> String {
    let service = places.serve(&["--pause", "3"]).await;
    let request = service.request().await;
    service.line("invoice 42: queued").await;
    service.send(Signal::STOP);
    let locked = places.client().await.red_lock(LOCK).try_lock().await.unwrap();
    assert!(locked.is_none(), "a client came between the request and the worker");
    let worker = places.work("0").await;
    worker.line("invoice 42: redeemed under token ").await;
    worker.line("invoice 42: charged under token ").await;
    places.all_done().await;
    service.send(Signal::CONT);
    let (status, answer) = request.await.unwrap();
    assert_eq!(status, 202, "{answer}");
    answer
}

#[tokio::test]
async fn a_late_write_of_the_request_is_refused_after_the_worker() {
    let places = Places::open().await;
    assert_eq!(late_write(&places).await, "the invoice is at a worker already\n");
    let invoice = places.invoice().await;
    assert_eq!((&*invoice.state, invoice.payments), ("charged", 1));
    let service = places.serve(&[]).await;
    assert_eq!(service.request().await.await.unwrap(), (200, "charged already\n".to_owned()));
}

/// Shows that the test above can fail.
#[tokio::test]
async fn a_database_without_a_working_fence_accepts_the_late_write() {
    let places = Places::open().await;
    places.execute(INVOICES).await;
    places.execute(FORGET).await;
    assert_eq!(late_write(&places).await, "the invoice is queued\n");
    assert_eq!(places.invoice().await.state, "queued");
}

#[tokio::test]
async fn a_job_that_is_delivered_twice_is_done_once() {
    let places = Places::open().await;
    let service = places.serve(&[]).await;
    assert_eq!(service.request().await.await.unwrap(), (202, "the invoice is queued\n".to_owned()));
    let queue = places.queue.server(0);
    let jobs: StreamRangeReply = queue.query(cmd("XRANGE").arg(STREAM).arg("-").arg("+")).await;
    let [job] = &jobs.ids[..] else { panic!("{jobs:?}") };
    let field = |name| job.get::<String>(name).unwrap();
    let mut copy = cmd("XADD");
    copy.arg(STREAM).arg("*");
    for name in ["invoice", "cents", "ticket"] {
        copy.arg(name).arg(field(name));
    }
    queue.query::<String>(&copy).await;

    let workers = tokio::join!(places.work("1.5"), places.work("1.5"));
    let workers = [workers.0, workers.1];
    places.all_done().await;
    let count = |begin| workers.iter().map(|worker| worker.lines(begin).len()).sum::<usize>();
    // The workers may redeem at the same time. If so, both redemptions may fail, and one worker locks anew.
    assert!(count("invoice 42: redeemed under token ") <= 1);
    assert_eq!(count("invoice 42: the payment has begun"), 1);
    assert_eq!(count("invoice 42: charged under token "), 1);
    assert!(count("invoice 42: the ticket is spent") >= 1);
    let invoice = places.invoice().await;
    assert_eq!((&*invoice.state, invoice.payments), ("charged", 1));
}

/// Kills or stops a worker between the payment and the last write. Returns the worker, and the invoice after another
/// worker has charged it.
async fn interrupted(places: &Places, signal: Signal) -> (Running, Invoice) {
    let service = places.serve(&[]).await;
    let first = places.work("3").await;
    assert_eq!(service.request().await.await.unwrap().0, 202);
    let token: i64 = first.line("invoice 42: redeemed under token ").await.parse().unwrap();
    first.line("invoice 42: the payment has begun").await;
    first.send(signal);

    let second = places.work("0").await;
    second.line("invoice 42: the ticket is spent").await;
    let next: i64 = second.line("invoice 42: locked anew under token ").await.parse().unwrap();
    second.line("invoice 42: 1999 cents are paid already").await;
    second.line("invoice 42: charged under token ").await;
    places.all_done().await;
    assert!(next > token, "{next} after {token}");
    let invoice = places.invoice().await;
    assert_eq!(invoice, Invoice { state: "charged".to_owned(), fence: next, payments: 1 });
    (first, invoice)
}

/// Kills a worker between the payment and the last write. Returns the service.
async fn killed_after_payment(places: &Places) -> Running {
    let service = places.serve(&[]).await;
    let worker = places.work("3").await;
    assert_eq!(service.request().await.await.unwrap().0, 202);
    worker.line("invoice 42: the payment has begun").await;
    worker.send(Signal::KILL);
    service
}

#[tokio::test]
async fn a_payment_is_recorded_although_the_amount_has_changed_since() {
    let places = Places::open().await;
    let _service = killed_after_payment(&places).await;
    places.execute("UPDATE invoices SET cents = 2099 WHERE id = 42").await;
    let worker = places.work("0").await;
    worker.line("invoice 42: the ticket is spent").await;
    places.all_done().await;
    let invoice = places.invoice().await;
    assert_eq!((&*invoice.state, invoice.payments), ("charged", 1));
}

#[tokio::test]
async fn a_second_job_does_not_repeat_the_payment_of_the_first() {
    let places = Places::open().await;
    let service = killed_after_payment(&places).await;
    let client = places.client().await;
    let is_free = async || client.inspect(LOCK).await.unwrap().holder().is_none();
    eventually(SOON, "the lease of the killed worker has ended", is_free).await;
    assert_eq!(service.request().await.await.unwrap().0, 202);
    let worker = places.work("0").await;
    worker.line("invoice 42: redeemed under token ").await;
    places.all_done().await;
    let invoice = places.invoice().await;
    assert_eq!((&*invoice.state, invoice.payments), ("charged", 1));
}

#[tokio::test]
async fn a_deleted_invoice_is_distinguished_from_a_refused_token() {
    let places = Places::open().await;
    let service = places.serve(&[]).await;
    // A worker creates the invoice when it starts, and hence starts before the deletion.
    let worker = places.work("0").await;
    worker.send(Signal::STOP);
    assert_eq!(service.request().await.await.unwrap().0, 202);
    places.execute("DELETE FROM invoices").await;
    worker.send(Signal::CONT);
    worker.line("invoice 42: deleted").await;
    places.all_done().await;
    assert_eq!(service.request().await.await.unwrap(), (404, "no invoice\n".to_owned()));
    let later =
        "INSERT INTO invoices (id, cents, state, fence) VALUES (42, 1999, 'open', 9223372036854775807)";
    places.execute(later).await;
    assert_eq!(service.request().await.await.unwrap(), (409, "the invoice is in use\n".to_owned()));
}

#[tokio::test]
async fn a_job_of_a_killed_worker_is_finished_by_another_worker() {
    let places = Places::open().await;
    interrupted(&places, Signal::KILL).await;
}

#[tokio::test]
async fn a_worker_that_continues_after_a_pause_changes_nothing() {
    let places = Places::open().await;
    let (first, invoice) = interrupted(&places, Signal::STOP).await;
    first.send(Signal::CONT);
    let is_refused = async || {
        let lines = first.lines("invoice 42: ");
        lines.iter().any(|line| line.contains("lost") || line.ends_with("is refused"))
    };
    eventually(SOON, "the worker notices the end of its lease", is_refused).await;
    assert!(first.lines("invoice 42: charged").is_empty());
    assert_eq!(places.invoice().await, invoice);
}

/// The worker stands still after the question whether the invoice is paid. When the worker continues, its pause is over
/// and its lease has ended.
#[tokio::test]
async fn a_worker_that_stands_still_before_the_payment_pays_nothing_later() {
    let places = Places::open().await;
    let service = places.serve(&[]).await;
    let first = places.work_with(&["--pause", "3"]).await;
    assert_eq!(service.request().await.await.unwrap().0, 202);
    first.line("invoice 42: no payment yet").await;
    first.send(Signal::STOP);
    let second = places.work("0").await;
    second.line("invoice 42: no payment yet").await;
    second.line("invoice 42: charged under token ").await;
    places.all_done().await;
    let invoice = places.invoice().await;
    assert_eq!((&*invoice.state, invoice.payments), ("charged", 1));
    first.send(Signal::CONT);
    let is_lost = async || first.lines("invoice 42: ").iter().any(|line| line.contains("lost"));
    eventually(SOON, "the worker notices the end of its lease", is_lost).await;
    assert!(first.lines("invoice 42: the payment has begun").is_empty());
    assert_eq!(places.invoice().await, invoice);
}

#[tokio::test]
async fn a_job_that_outlives_its_ticket_is_checked_again() {
    let places = Places::open().await;
    let service = places.serve(&["--ticket-ttl", "0.2"]).await;
    let worker_line = async |begin| {
        assert_eq!(service.request().await.await.unwrap().0, 202);
        let quorum = places.client().await;
        let is_free = async || quorum.inspect(LOCK).await.unwrap().holder().is_none();
        eventually(SOON, "the ticket has ended", is_free).await;
        if begin == "invoice 42: the amount has changed" {
            places.execute("UPDATE invoices SET cents = 2099 WHERE id = 42").await;
        }
        let worker = places.work("0").await;
        worker.line("invoice 42: the ticket is spent").await;
        worker.line(begin).await;
        places.all_done().await;
    };
    worker_line("invoice 42: the amount has changed").await;
    let invoice = places.invoice().await;
    assert_eq!((&*invoice.state, invoice.payments), ("open", 0));
    worker_line("invoice 42: charged under token ").await;
    let invoice = places.invoice().await;
    assert_eq!((&*invoice.state, invoice.payments), ("charged", 1));
    let client = places.client().await;
    assert!(client.red_lock(LOCK).options(LockOptions::new()).try_lock().await.unwrap().is_some());
}
