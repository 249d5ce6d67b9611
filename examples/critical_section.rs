//! A critical section: sixteen tasks read a number, pause, and write it back with one more, and no
//! update is lost.
//!
//! Without the lock, tasks would read the same number and overwrite each other. Each task has a
//! client of its own, as separate processes would.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering},
};

use redquorum::{MemoryCluster, Quorum, error::ConnectError};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let cluster = MemoryCluster::new(5);
    let counter = Arc::new(AtomicU32::new(0));

    let tasks: Vec<_> = (0..16)
        .map(|_| {
            let (cluster, counter) = (cluster.clone(), Arc::clone(&counter));
            tokio::spawn(async move {
                let quorum = connect(&cluster).await?;
                let guard = quorum.red_lock("example:counter").lock().await?;
                let seen = counter.load(Ordering::SeqCst);
                tokio::task::yield_now().await; // others run here: the window in which updates get lost
                counter.store(seen + 1, Ordering::SeqCst);
                guard.unlock().await?;
                quorum.shutdown().await;
                anyhow::Ok(())
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }

    println!("16 tasks, counter: {}", counter.load(Ordering::SeqCst));
    assert_eq!(counter.load(Ordering::SeqCst), 16);
    Ok(())
}

async fn connect(cluster: &MemoryCluster) -> Result<Quorum, ConnectError> {
    match Quorum::builder().nodes_from_env() {
        Ok(builder) => builder.admit_new_nodes().connect().await,
        Err(_) => Quorum::builder().in_memory(cluster),
    }
}
