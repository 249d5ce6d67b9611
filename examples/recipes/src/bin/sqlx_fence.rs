//! Writes with a fencing token in SQLite, by sqlx: the database refuses a holder that was paused
//! past the end of its lease.
//!
//! The token is a column of the row that the lock protects. Each access of a holder writes the
//! token, if the row has no larger token. Any database with an atomic `UPDATE ... WHERE` works.
//!
//! Runs on five in-memory nodes, or on real ones after `redquorum init --if-needed`. The database
//! is in memory, or a file:
//!
//! ```text
//! cargo run -p redquorum-recipes --bin sqlx_fence
//! REDQUORUM_NODES=redis://10.0.0.1,redis://10.0.0.2,redis://10.0.0.3 \
//!     cargo run -p redquorum-recipes --bin sqlx_fence -- --database 'sqlite:invoices.db?mode=rwc'
//! ```

#![expect(clippy::print_stdout, reason = "the example prints what happens")]

use std::time::Duration;

use anyhow::ensure;
use clap::Parser;
use redquorum::{Error, FencingToken, LockOptions, Quorum};
use sqlx::{SqlitePool, sqlite::SqlitePoolOptions};

const TABLE: &str = "CREATE TABLE IF NOT EXISTS invoices (
    id INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    fence INTEGER NOT NULL DEFAULT 0
)";

/// Adds the invoice. If an earlier run has added the invoice, the row stays, because it has the largest token.
const INVOICE: &str = "INSERT INTO invoices (id, state) VALUES (42, 'open') ON CONFLICT DO NOTHING";

// A lease may access the row more than once, hence `<=`.
const READ: &str = "UPDATE invoices SET fence = ?1 WHERE id = ?2 AND fence <= ?1 RETURNING state";
const WRITE: &str = "UPDATE invoices SET fence = ?1, state = ?3 WHERE id = ?2 AND fence <= ?1";
const AUDIT: &str = "SELECT state, fence FROM invoices WHERE id = ?1";

/// Lets two holders of one lock write to a database, which refuses the late write.
#[derive(Debug, Parser)]
struct Arguments {
    /// Url of the database, as sqlx expects it.
    #[arg(long, value_name = "URL", default_value = "sqlite::memory:")]
    database: String,
}

/// The options of a holder that is paused. During the pause, no watchdog renews the lease.
const PAUSED: LockOptions = LockOptions::new().ttl(Duration::from_millis(300)).without_renewal();

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    // Each connection to `sqlite::memory:` would have a separate database, so the pool has one.
    let database = SqlitePoolOptions::new().max_connections(1).connect(&arguments.database).await?;
    sqlx::query(TABLE).execute(&database).await?;
    sqlx::query(INVOICE).execute(&database).await?;
    let quorum = connect().await?;
    let lock = quorum.red_lock("example:invoice:42");

    let paused = lock.clone().options(PAUSED).lock().await?;
    let old = paused.fencing_token();
    ensure!(read(&database, old).await?.is_some(), "the first holder was refused, without a later holder");
    // The first holder stops here, as in a long garbage collection. `lock` waits until the lease
    // has ended.
    let next = lock.lock().await?;
    let new = next.fencing_token();
    ensure!(read(&database, new).await?.is_some(), "the next holder was refused");
    ensure!(write(&database, new, "charged").await?, "the next holder was refused");
    println!("token {new}: written");

    ensure!(
        !write(&database, old, "cancelled").await?,
        "a write of token {old} came after token {new} and was accepted"
    );
    println!("token {old}: refused, the row has a larger token");
    let (state, token) = audit(&database).await?;
    ensure!((state.as_str(), token) == ("charged", new), "the invoice is {state} under token {token}");
    println!("the invoice is charged");

    next.unlock().await?;
    quorum.shutdown().await;
    database.close().await;
    Ok(())
}

/// Records the token, so that smaller tokens are refused from now on, and returns the state.
///
/// `None` if the row has a larger token.
async fn read(database: &SqlitePool, token: FencingToken) -> sqlx::Result<Option<String>> {
    let read = sqlx::query_scalar(READ).bind(i64::from(token)).bind(42);
    read.fetch_optional(database).await
}

/// Writes the state. Returns whether the database accepted the write: if the row has a larger token, the database
/// refuses the write.
async fn write(database: &SqlitePool, token: FencingToken, state: &str) -> sqlx::Result<bool> {
    let write = sqlx::query(WRITE).bind(i64::from(token)).bind(42).bind(state);
    Ok(write.execute(database).await?.rows_affected() == 1)
}

/// Returns the state, and the token of the last holder. An audit needs no lock.
async fn audit(database: &SqlitePool) -> anyhow::Result<(String, FencingToken)> {
    let (state, fence): (String, i64) = sqlx::query_as(AUDIT).bind(42).fetch_one(database).await?;
    Ok((state, fence.try_into()?))
}

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
