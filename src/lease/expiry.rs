//! The expiry: the task that ends leases at the end of their validity, and the waits of guards for that end.

use std::{sync::Arc, time::Duration};

use crate::{
    client::context::ClientContext,
    error::LeaseLost,
    lease::{active_lease::ActiveLease, leases::Leases},
    mutation::{self, Mutation},
};

/// Ends each lease at the end of its validity, and unlocks the lease at all nodes that may have its key.
///
/// This task is separate from the watchdog, so that no renewal can delay the end of a lease. Guards do not depend on
/// the task, because they read the clock.
pub(crate) async fn run(leases: Arc<Leases>) {
    if !has_timer() {
        return;
    }
    let context = &*leases.context;
    loop {
        let now = context.now();
        for id in leases.expiries.take_due(now) {
            let Some(lease) = leases.get(id) else { continue };
            match lease.loss_at(now) {
                Some(reason) => drop(leases.lose(&lease, reason)),
                // The lease was renewed after its timer was set.
                None => leases.expiries.set(id, lease.valid_until()),
            }
        }
        match leases.expiries.arm(now) {
            Some(next) => {
                tokio::select! {
                    biased;
                    () = leases.expiries.earlier() => {}
                    () = context.clock.sleep_until(next) => {}
                }
            }
            None => leases.expiries.earlier().await,
        }
    }
}

/// Whether the end of a lease has a timer. Only a test switches the timers off, so that a late renewal has to find the
/// end of the lease.
pub(crate) fn has_timer() -> bool {
    !mutation::is_on(Mutation::LossOnlyByRenewal)
}

/// Waits for the loss or unlock of the lease, and returns the reason. This future has its own timer. Therefore the
/// future is ready no later than the end of the validity, even if the task of the expiry is late.
pub(crate) async fn lost(leases: &Leases, lease: &ActiveLease) -> LeaseLost {
    let context = &*leases.context;
    let early = context.clock.granularity();
    while !has_timer() && lease.is_active() {
        lease.changed().await;
    }
    loop {
        let changed = lease.changed();
        let mut changed = std::pin::pin!(changed);
        // The subscription comes before the clock is read, so that no change is missed.
        changed.as_mut().enable();
        if let Some(reason) = lease.loss_at(context.now() + early) {
            // Timers are early by their granularity, so the validity may not be over yet. The lease ends here, because
            // a lease must not be valid after the report of its loss.
            leases.lose(lease, reason);
            return lease.lost(reason);
        }
        let end = lease.valid_until().saturating_sub(early);
        tokio::select! {
            biased;
            () = changed => {}
            () = context.clock.sleep_until(end) => {}
        }
    }
}

/// Waits until at most `left` of the validity remains. Each renewal postpones that time.
pub(crate) async fn within(context: &ClientContext, lease: &ActiveLease, left: Duration) {
    loop {
        let changed = lease.changed();
        let mut changed = std::pin::pin!(changed);
        // The subscription comes before the clock is read, so that no change is missed.
        changed.as_mut().enable();
        if lease.remaining(context.now()) <= left {
            return;
        }
        let at = lease.valid_until().saturating_sub(left);
        tokio::select! {
            biased;
            () = changed => {}
            () = context.clock.sleep_until(at) => {}
        }
    }
}
