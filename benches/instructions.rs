//! Makes a given number of locks and unlocks, on five nodes in memory or on one server.
//! `benches/instructions.sh` counts the instructions of the program.
//!
//! The program has one thread. If the nodes are in memory, the time of tokio is paused, so that the count
//! does not depend on the load of the machine.

use redquorum::Quorum;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Arguments that Cargo adds are ignored. Without a number, a few repetitions suffice for a test run.
    let repetitions = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(10);
    let server = std::env::args().find(|argument| argument.starts_with("redis://"));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(server.is_none()).build()?;
    runtime.block_on(async {
        let quorum = match server {
            Some(url) => Quorum::builder().nodes([url]).admit_new_nodes().connect().await?,
            None => Quorum::in_memory(5)?,
        };
        let lock = quorum.red_lock("invoice:42");
        for _ in 0..repetitions {
            lock.lock().await?.unlock().await?;
        }
        quorum.shutdown().await;
        Ok(())
    })
}
