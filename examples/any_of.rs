//! `any_of`: six documents, three printers, and each document goes to the first free printer.
//!
//! `cargo run --example any_of`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]
#![expect(clippy::disallowed_methods, reason = "a sleep stands for printing")]

use std::time::Duration;

use futures::future::try_join_all;
use redquorum::{Error, Quorum};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let quorum = connect().await?;
    // A lock of a single resource excludes `any_of`, so no document goes to this printer.
    let colour = quorum.red_lock("example:printer:colour").lock().await?;
    try_join_all((0..6).map(|document| print(&quorum, document))).await?;
    println!("no document went to {}, which was held", colour.resource());
    colour.unlock().await?;
    quorum.shutdown().await;
    Ok(())
}

async fn print(quorum: &Quorum, document: u32) -> Result<(), Error> {
    let printers = ["left", "right", "colour"].map(|name| format!("example:printer:{name}"));
    let any = quorum.any_of(printers);
    any.run(async |guard| {
        println!("document {document} goes to {}", guard.resource());
        tokio::time::sleep(Duration::from_millis(20)).await;
    })
    .await
}

/// Connects to the nodes that `REDQUORUM_NODES` names. Without the variable: to five nodes in memory.
async fn connect() -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::in_memory(5),
    }
}
