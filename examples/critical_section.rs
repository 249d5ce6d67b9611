//! A critical section: sixteen tasks each read a number, add one, and write the number. No update is lost.
//!
//! Each task has a client of its own, as separate processes would.
//!
//! `cargo run --example critical_section`

#![expect(clippy::print_stdout, reason = "the example prints what happens")]

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use redquorum::{Error, MemoryCluster, Quorum};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = MemoryCluster::new(5);
    let counter = Arc::new(AtomicU32::new(0));

    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (cluster, counter) = (cluster.clone(), Arc::clone(&counter));
            tokio::spawn(async move { add_one(&cluster, &counter).await })
        })
        .collect();
    for task in tasks {
        task.await??;
    }

    println!("16 tasks, counter: {}", counter.load(Ordering::SeqCst));
    assert_eq!(counter.load(Ordering::SeqCst), 16);
    Ok(())
}

async fn add_one(cluster: &MemoryCluster, counter: &AtomicU32) -> Result<(), Error> {
    let quorum = connect(cluster).await?;
    let guard = quorum.red_lock("example:counter").lock().await?;
    let seen = counter.load(Ordering::SeqCst);
    // Other tasks may run here. Without the lock, they would read the same number.
    tokio::task::yield_now().await;
    counter.store(seen + 1, Ordering::SeqCst);
    guard.unlock().await?;
    quorum.shutdown().await;
    Ok(())
}

/// Connects to the nodes that `REDQUORUM_NODES` names, or to nodes in memory that all tasks share.
async fn connect(cluster: &MemoryCluster) -> Result<Quorum, Error> {
    match Quorum::builder().nodes_from_env() {
        // For examples only: with this setting, a node that lost all data votes at once, like a new node.
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::builder().connect_in_memory(cluster),
    }
}
