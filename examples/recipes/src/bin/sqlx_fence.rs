//! A write that carries the fencing token of its lock, in SQLite by sqlx: the database refuses a
//! holder that was paused for too long.
//!
//! The token is a column of the row that the lock protects. Every access of a holder begins with
//! the same statement, which takes the token if it is not smaller than the one that is there. Any
//! database with an atomic `UPDATE ... WHERE` does as well.
//!
//! Runs on five in-memory nodes, or on real ones after `redquorum init --if-needed`, and with a
//! database in memory, or a file:
//!
//! ```text
//! cargo run -p redquorum-recipes --bin sqlx_fence
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 \
//!     cargo run -p redquorum-recipes --bin sqlx_fence -- --database 'sqlite:invoices.db?mode=rwc'
//! ```

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;

use anyhow::ensure;
use clap::Parser;
use redquorum::{FencingToken, Quorum, error::ConnectError};
use sqlx::{SqlitePool, sqlite::SqlitePoolOptions};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS invoices (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0
)";

/// An older row stays as it is, with the largest token that was seen.
const INVOICE: &str = "INSERT INTO invoices (id, state) VALUES (42, 'open') ON CONFLICT DO NOTHING";

/// One lease may access the row more than once, hence `<=`.
const READ: &str = "UPDATE invoices SET fence = ?1 WHERE id = ?2 AND fence <= ?1 RETURNING state";
const WRITE: &str = "UPDATE invoices SET fence = ?1, state = ?3 WHERE id = ?2 AND fence <= ?1";

/// Two holders of one lock write to a database, which refuses the late one.
#[derive(Debug, Parser)]
struct Arguments {
    /// The database, as sqlx names it.
    #[arg(long, value_name = "URL", default_value = "sqlite::memory:")]
    database: String,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // With a database in memory, each connection would have one of its own.
    let database = SqlitePoolOptions::new().max_connections(1).connect(&arguments.database).await?;
    sqlx::query(TABLE).execute(&database).await?;
    sqlx::query(INVOICE).execute(&database).await?;
    let quorum = connect().await?;
    let lock = quorum.red_lock("example:invoice:42");

    let paused = lock.clone().ttl(Duration::from_millis(300)).without_renewal().lock().await?;
    let old = paused.fencing_token();
    ensure!(read(&database, old).await?.is_some(), "the first holder was refused, without a later one");
    // The first holder stops here: a long pause, a suspended machine. Its lease ends, and another
    // one begins.
    let next = lock.lock().await?;
    let new = next.fencing_token();
    ensure!(read(&database, new).await?.is_some(), "the next holder was refused");
    ensure!(write(&database, new, "charged").await?, "the next holder was refused");
    println!("token {new}: written");

    ensure!(
        !write(&database, old, "cancelled").await?,
        "a write of token {old} came after {new} and was taken"
    );
    println!("token {old}: refused, a larger one was here");
    let state = read(&database, new).await?;
    ensure!(state.as_deref() == Some("charged"), "the invoice is {state:?}");
    println!("the invoice is charged");

    next.unlock().await?;
    quorum.shutdown().await;
    database.close().await;
    Ok(())
}

/// The state of the invoice, which registers the token: from now on smaller ones are refused.
/// `None` if a larger one was here.
async fn read(database: &SqlitePool, token: FencingToken) -> sqlx::Result<Option<String>> {
    let read = sqlx::query_scalar(READ).bind(i64::from(token)).bind(42);
    read.fetch_optional(database).await
}

/// Whether the write was taken: no row has changed if a larger token was here.
async fn write(database: &SqlitePool, token: FencingToken, state: &str) -> sqlx::Result<bool> {
    let write = sqlx::query(WRITE).bind(i64::from(token)).bind(42).bind(state);
    Ok(write.execute(database).await?.rows_affected() == 1)
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
