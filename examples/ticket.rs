//! A ticket: a web request locks an order, and a worker in another process continues with the lock.
//!
//! `cargo run --example ticket`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]

use std::time::Duration;

use redquorum::{Error, FencingToken, LockOptions, Quorum, Ticket};

const ORDER: &str = "example:order:7";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;

    let (job, requested) = web_request(&quorum).await?;
    let charged = worker(&quorum, &job).await?.expect("nobody else has redeemed the ticket");
    assert!(charged > requested, "a store would accept a late write of the web request");

    // The queue delivers the job a second time.
    let again = worker(&quorum, &job).await?;
    assert!(again.is_none(), "a ticket was redeemed twice");
    println!("the second delivery finds the ticket spent");

    quorum.shutdown().await;
    Ok(())
}

/// Checks the order, and returns the job for the queue: the text of a ticket, which contains a secret.
async fn web_request(quorum: &Quorum) -> Result<(String, FencingToken), Error> {
    let guard = quorum.red_lock(ORDER).lock().await?;
    let token = guard.fencing_token();
    println!("web request: checks the order under token {token}");
    let ticket = guard.into_ticket(Duration::from_secs(60)).await?;
    println!("web request: {ticket:?}"); // without the secret
    Ok((ticket.to_string(), token))
}

/// Charges the order. Returns the token of the charge; `None` if the ticket is spent.
async fn worker(quorum: &Quorum, job: &str) -> anyhow::Result<Option<FencingToken>> {
    let ticket: Ticket = job.parse()?;
    let Some(guard) = quorum.redeem(&ticket, LockOptions::new()).await? else { return Ok(None) };
    let token = guard.fencing_token();
    println!("worker: charges the order under token {token}");
    guard.unlock().await?;
    Ok(Some(token))
}

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
