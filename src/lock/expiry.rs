//! The end of leases, on a timer of its own.

use std::sync::Arc;

use crate::lock::core::Core;

/// Ends every lease whose validity is over, and unlocks it everywhere.
///
/// Apart from the watchdog, so that nothing that happens to a renewal can delay the end of a lease. Guards do not even
/// depend on this: they look at the clock themselves.
pub(crate) async fn run(core: Arc<Core>) {
    loop {
        let now = core.now();
        for id in core.expiries.take_due(now) {
            let Some(held) = core.lease(id) else { continue };
            match held.loss_at(now) {
                Some(reason) => drop(core.lose(&held, reason)),
                // Renewed meanwhile.
                None => core.expiries.set(id, held.valid_until()),
            }
        }
        match core.expiries.arm() {
            Some(next) => {
                tokio::select! {
                    biased;
                    () = core.expiries.earlier() => {}
                    () = core.clock.sleep_until(next) => {}
                }
            }
            None => core.expiries.earlier().await,
        }
    }
}
