//! Real Redis servers for integration tests, and the faults to put them through.
//!
//! ```text
//! Cluster --owns--> Server (0..n) --runs as--> ServerProcess    redis-server, SIGSTOP, SIGKILL
//!    |                  |                      ServerContainer  the same binary in a container
//!    |                  +--holds--> Port       its address, also while the server is down
//!    +--owns--> Reaper                         removes data and containers, also after SIGKILL
//!
//! Sentinel --runs as--> ServerProcess          watches a master and its replicas
//! Proxy                                        a TCP hop that holds back, swallows or delays one direction
//! ```
//!
//! A test starts with [`Cluster::start`]; `REDQUORUM_TEST_SERVERS` set to `processes` or `containers` says what the
//! servers run as, see [`Kind::choose`].
#![allow(dead_code, unused_imports, reason = "each test binary uses only a part of the fixture")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a fixture that cannot do its work fails the test that asked for it"
)]

mod cluster;
mod container;
mod docker;
mod eventually;
mod image;
mod kind;
mod lock_file;
mod options;
mod port;
mod process;
mod program;
mod proxy;
mod reaper;
mod sentinel;
mod server;
mod stale;

pub(crate) use cluster::Cluster;
pub(crate) use eventually::eventually;
pub(crate) use kind::Kind;
pub(crate) use options::ServerOptions;
pub(crate) use port::Port;
pub(crate) use proxy::{Direction, Proxy};
pub(crate) use sentinel::Sentinel;
pub(crate) use server::Server;
