//! Real Redis servers for the tests of all crates and for the benchmarks, with the faults that tests cause.
//!
//! ```text
//! Cluster --owns--> Server (0..n) --runs as--> ServerProcess    redis-server, SIGSTOP, SIGKILL
//!    |                  |                      ServerContainer  the same binary in a container
//!    |                  +--holds--> Port       its address, also while the server is down
//!    +--owns--> Reaper                         removes data and containers, also if the test process is killed
//!
//! Sentinel --runs as--> ServerProcess          watches a master and its replicas
//! Proxy                                        holds back, discards or delays the bytes of one direction
//! RedisCluster --owns--> Cluster, Proxy        three masters with replicas, as one Redis Cluster
//! ```
//!
//! A test starts its servers by [`Cluster::start`]. The environment variable `REDQUORUM_TEST_SERVERS` chooses between
//! `processes`, `containers` and `redis-clusters` (see [`Kind::choose`]). [`Cluster::start_as`] lets the test choose. Containers need a
//! build with `RUSTFLAGS="--cfg redquorum_containers"`, such as the build of `tests/run.sh --all`. Other builds do not
//! compile testcontainers.
#![allow(clippy::disallowed_methods, reason = "real servers need real time and free ports")]
#![allow(
    clippy::exhaustive_enums,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "only tests and benchmarks of this repository use this crate, and a panic fails them"
)]

mod cluster;
#[cfg(redquorum_containers)]
mod container;
#[cfg(not(redquorum_containers))]
#[path = "without_containers.rs"]
mod container;
mod docker;
mod eventually;
mod forked;
mod hash_tag;
mod image;
mod kind;
mod options;
mod proxy;
mod reaper;
mod redis_cluster;
mod sentinel;
mod server;
#[path = "../../src/node/redis/tests/server_process/mod.rs"]
#[allow(dead_code, reason = "the tests of the library use further functions")]
mod server_process;
mod stale;
mod stopwatch;

pub use cluster::Cluster;
pub use eventually::eventually;
pub use forked::ForkedProcess;
pub use kind::Kind;
pub use options::ServerOptions;
pub use proxy::{Direction, Proxy};
pub use redis_cluster::RedisCluster;
pub use sentinel::Sentinel;
pub use server::Server;
pub use server_process::port::Port;
pub use stopwatch::Stopwatch;
