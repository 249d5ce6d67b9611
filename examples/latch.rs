//! Three services warm up, and none takes requests before all are warm; one of them is restarted in
//! between, and is not counted twice.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(clippy::disallowed_methods, reason = "a service that takes a while")]

use std::time::Duration;

use futures::future::try_join_all;
use redquorum::{
    Quorum,
    error::{ConnectError, LatchError},
};

const SERVICES: u32 = 3;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    // A latch is for one use: the name says which.
    let name = format!("example:warm:{:?}", std::time::SystemTime::now());
    service(&quorum, &name, 0).await?;
    println!("service 0 crashes, and is started again");
    try_join_all((0..SERVICES).map(|number| open(&quorum, &name, number))).await?;
    quorum.shutdown().await;
    Ok(())
}

async fn service(quorum: &Quorum, name: &str, number: u32) -> Result<(), LatchError> {
    tokio::time::sleep(Duration::from_millis(20 * u64::from(number))).await;
    let latch = quorum.latch(name, SERVICES);
    // By a name of its own, so that it counts once however often it starts.
    latch.arrive_as(format!("service {number}")).await?;
    println!("service {number} is warm: {} of {SERVICES}", latch.arrived().await?);
    Ok(())
}

async fn open(quorum: &Quorum, name: &str, number: u32) -> Result<(), LatchError> {
    service(quorum, name, number).await?;
    quorum.latch(name, SERVICES).wait_for(Duration::from_secs(10)).await?;
    println!("service {number} takes requests");
    Ok(())
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
