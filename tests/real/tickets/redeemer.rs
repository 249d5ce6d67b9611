//! A process that redeems tickets. The process is the test binary, started again for the same test.

use std::{
    io::{BufRead, Write},
    process::Stdio,
    time::Duration,
};

use redquorum::{LockGuard, LockOptions, Quorum, Ticket};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
};

use super::SOON;

/// The variable with the urls of the nodes, which makes a test a redeemer.
const NODES: &str = "REDQUORUM_TEST_REDEEMER_NODES";
/// The variable with the ttl of the redeemer's leases, in milliseconds.
const TTL: &str = "REDQUORUM_TEST_REDEEMER_TTL";

/// The beginning of each line that a redeemer writes. The test binary writes other lines, too.
const MARK: &str = "redeemer: ";

/// The line that tells a redeemer to unlock.
const UNLOCK: &str = "unlock";

/// The time to wait for the answer of one node. The hedge is at least an eighth of this time.
const NODE_TIMEOUT: Duration = Duration::from_secs(8);

/// Whether this process is a redeemer.
pub(super) fn is_child() -> bool {
    std::env::var_os(NODES).is_some()
}

/// The work of a redeemer: redeems each ticket that it reads, writes the outcome, and keeps the lease until the next
/// line. Ends with its input.
pub(super) async fn run() {
    let variable = |name| std::env::var(name).unwrap();
    let ttl = Duration::from_millis(variable(TTL).parse().unwrap());
    let nodes = variable(NODES);
    let quorum = Quorum::builder().admit_new_nodes().nodes(nodes.split(',')).connect().await.unwrap();
    // A node timeout must be shorter than the ttl. A redeemer with a short ttl is killed, so its hedge is irrelevant.
    let options = LockOptions::new().ttl(ttl).node_timeout(NODE_TIMEOUT.min(ttl / 3));
    report("ready");
    let mut held: Option<LockGuard> = None;
    while let Some(line) = next_line().await {
        if let Some(guard) = held.take() {
            guard.unlock().await.unwrap();
        }
        if line == UNLOCK {
            continue;
        }
        let ticket: Ticket = line.parse().unwrap();
        held = quorum.redeem(&ticket, options.clone()).await.unwrap();
        match &held {
            Some(guard) => report(&guard.fencing_token().to_string()),
            None => report("spent"),
        }
    }
}

async fn next_line() -> Option<String> {
    let read = || std::io::stdin().lock().lines().next().map(Result::unwrap);
    tokio::task::spawn_blocking(read).await.unwrap()
}

fn report(text: &str) {
    let mut output = std::io::stdout();
    writeln!(output, "\n{MARK}{text}").and_then(|()| output.flush()).unwrap();
}

/// A redeemer that runs as a child process. The process is killed when the value is dropped.
#[derive(Debug)]
pub(super) struct Redeemer {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Redeemer {
    /// Starts this test again as a redeemer with leases of this ttl, and waits until the redeemer is connected.
    pub(super) async fn start(test: &str, urls: &[String], ttl: Duration) -> Self {
        let name = format!("real::tickets::{test}");
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", &name, "--nocapture"])
            .env(NODES, urls.join(","))
            .env(TTL, ttl.as_millis().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        let mut redeemer = Self { process, input, output: BufReader::new(output).lines() };
        let connected = tokio::time::timeout(SOON, redeemer.report()).await;
        assert_eq!(connected.expect("the redeemer connects"), "ready");
        redeemer
    }

    /// Makes the process redeem a ticket. The process first unlocks the lease of an earlier ticket.
    pub(super) async fn redeem(&mut self, ticket: &Ticket) {
        self.write(&ticket.to_string()).await;
    }

    /// Returns the token of the redeemed ticket; `None` if the ticket is spent.
    pub(super) async fn outcome(&mut self) -> Option<u64> {
        self.report().await.parse().ok()
    }

    /// Makes the process unlock the lease of the last ticket.
    pub(super) async fn unlock(&mut self) {
        self.write(UNLOCK).await;
    }

    /// Kills the process by SIGKILL, and waits until it has ended.
    pub(super) async fn kill(&mut self) {
        let ended = tokio::time::timeout(SOON, self.process.kill()).await;
        ended.expect("the redeemer has ended").unwrap();
    }

    async fn write(&mut self, line: &str) {
        self.input.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        self.input.flush().await.unwrap();
    }

    /// Returns the next text that the redeemer reports.
    async fn report(&mut self) -> String {
        loop {
            let line = self.output.next_line().await.unwrap().expect("the redeemer has ended");
            if let Some(text) = line.strip_prefix(MARK) {
                return text.to_owned();
            }
        }
    }
}
