//! Locks and unlocks on five nodes in memory as often as it is told to, for `benches/instructions.sh` to count the
//! instructions of.
//!
//! On one thread and in paused time, so that the count does not depend on what else the machine does.

use redquorum::Quorum;

/// The first argument that is a number; cargo adds words of its own. Few without one: then it is only tried out.
fn times() -> usize {
    std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(10)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build()?;
    runtime.block_on(async {
        let quorum = Quorum::in_memory(5)?;
        let lock = quorum.red_lock("invoice:42");
        for _ in 0..times() {
            lock.lock().await?.unlock().await?;
        }
        Ok(())
    })
}
