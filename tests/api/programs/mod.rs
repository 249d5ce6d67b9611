//! Nine programs, written as a service that uses the library would write them.
//!
//! ```text
//! main()            in-memory nodes, in the binary `api`
//! run(clients)      any nodes: `main` and the tests on real servers call it
//!    |--> the program: handlers, loops and jobs
//!    `--> the clients of the program, and assertions
//! ```
//!
//! `run` receives two clients of one quorum, as two processes would have; in `two_quorums`, of two quorums.

use redquorum::{Error, MemoryCluster, Quorum};

pub(crate) mod account_batch;
pub(crate) mod blocking_migration;
pub(crate) mod gpu_pool;
mod http;
pub(crate) mod http_fenced_sql;
pub(crate) mod leader_health;
pub(crate) mod price_cache;
pub(crate) mod simulated_balance;
pub(crate) mod startup_barrier;
pub(crate) mod two_quorums;

/// Connects two clients to a new quorum of three in-memory nodes.
fn in_memory() -> Result<[Quorum; 2], Error> {
    let cluster = MemoryCluster::new(3);
    let client = |label| Quorum::builder().label(label).connect_in_memory(&cluster);
    Ok([client("first")?, client("second")?])
}
