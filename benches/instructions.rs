//! Locks and unlocks as often as it is told to, on five nodes in memory or on one server, for
//! `benches/instructions.sh` to count the instructions of.
//!
//! On one thread, and in memory in paused time, so that the count does not depend on what else the
//! machine does.

use redquorum::Quorum;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Cargo adds words of its own. Few without a number: then it is only tried out.
    let times = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(10);
    let server = std::env::args().find(|argument| argument.starts_with("redis://"));
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(server.is_none()).build()?;
    runtime.block_on(async {
        let quorum = match server {
            Some(url) => Quorum::builder().nodes([url]).admit_new_nodes().connect().await?,
            None => Quorum::in_memory(5)?,
        };
        let lock = quorum.red_lock("invoice:42");
        for _ in 0..times {
            lock.lock().await?.unlock().await?;
        }
        quorum.shutdown().await;
        Ok(())
    })
}
