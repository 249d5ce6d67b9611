//! A latch: three services warm up, and no service accepts requests before all services are warm.
//!
//! One service is restarted after its arrival. Its second arrival does not count.
//!
//! `cargo run --example latch`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]
#![expect(clippy::disallowed_methods, reason = "a sleep stands for work, the time makes a new name")]

use std::time::{Duration, SystemTime};

use futures::future::try_join_all;
use redquorum::{Error, Quorum};

const SERVICES: u32 = 3;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    // A latch stays open, so each occasion needs a new name, such as the version of a release.
    let release = format!("example:warm:{:?}", SystemTime::now());
    warm_up(&quorum, &release, 0).await?;
    println!("service 0 crashes and is restarted");
    try_join_all((0..SERVICES).map(|service| start(&quorum, &release, service))).await?;
    quorum.shutdown().await;
    Ok(())
}

async fn start(quorum: &Quorum, release: &str, service: u32) -> Result<(), Error> {
    warm_up(quorum, release, service).await?;
    let warm = quorum.latch(release, SERVICES);
    while !warm.wait_for(Duration::from_secs(10)).await? {
        println!("service {service} waits: {} of {SERVICES} are warm", warm.arrivals().await?);
    }
    println!("service {service} takes requests");
    Ok(())
}

async fn warm_up(quorum: &Quorum, release: &str, service: u32) -> Result<(), Error> {
    tokio::time::sleep(Duration::from_millis(20 * u64::from(service))).await;
    let warm = quorum.latch(release, SERVICES);
    // The name makes a service count once, even if it restarts.
    warm.arrive_as(format!("service {service}")).await?;
    println!("service {service} is warm: {} of {SERVICES}", warm.arrivals().await?);
    Ok(())
}

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
