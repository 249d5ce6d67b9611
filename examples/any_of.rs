//! Six documents are printed by three printers: each on the first that is free, by whoever has it.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]
#![expect(clippy::disallowed_methods, reason = "a printer that takes a while")]

use std::time::Duration;

use futures::future::try_join_all;
use redquorum::{
    Quorum,
    error::{ConnectError, RunError},
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    // Somebody needs this one, and no other.
    let colour = quorum.red_lock("example:printer:colour").lock().await?;
    try_join_all((0..6).map(|document| print(&quorum, document))).await?;
    println!("nothing was printed in colour, which is taken: {colour:?}");
    colour.unlock().await?;
    quorum.shutdown().await;
    Ok(())
}

async fn print(quorum: &Quorum, document: u32) -> Result<(), RunError> {
    let printers = ["left", "right", "colour"].map(|name| format!("example:printer:{name}"));
    let any = quorum.any_of(printers);
    let printed = any.run(async |lease| {
        println!("document {document} is printed by {}", lease.resource());
        tokio::time::sleep(Duration::from_millis(20)).await;
    });
    printed.await?;
    Ok(())
}

async fn connect() -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
