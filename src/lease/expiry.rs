//! The end of leases, by a timer of its own.

use std::{sync::Arc, time::Duration};

use crate::{
    client::context::ClientContext,
    error::LeaseLost,
    lease::{active_lease::ActiveLease, leases::Leases},
    mutation::{self, Mutation},
};

/// Ends every lease whose validity is over, and unlocks it everywhere.
///
/// This task is separate from the watchdog, so that no renewal can delay the end of a lease. Guards do not depend on it:
/// they read the clock themselves.
pub(crate) async fn run(leases: Arc<Leases>) {
    if !has_its_own_timer() {
        return;
    }
    let context = &*leases.context;
    loop {
        let now = context.now();
        for id in leases.expiries.take_due(now) {
            let Some(lease) = leases.get(id) else { continue };
            match lease.loss_at(now) {
                Some(reason) => drop(leases.lose(&lease, reason)),
                // Renewed meanwhile.
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

/// Whether the end of a lease has a timer of its own: always, except with a mutation. So a renewal that is too late does
/// not have to end the lease.
pub(crate) fn has_its_own_timer() -> bool {
    !mutation::is_on(Mutation::LossOnlyByRenewal)
}

/// Ready when the lease is over, no later than the end of its validity, by a timer of the caller.
pub(crate) async fn lost(leases: &Leases, lease: &ActiveLease) -> LeaseLost {
    let context = &*leases.context;
    let early = context.clock.granularity();
    while !has_its_own_timer() && lease.is_held() {
        lease.changed().await;
    }
    loop {
        let changed = lease.changed();
        let mut changed = std::pin::pin!(changed);
        // From here on no change is missed, so the clock is read after this.
        changed.as_mut().enable();
        if let Some(reason) = lease.loss_at(context.now() + early) {
            // Timers are set early by their granularity. A task that has received the loss must not find the lease
            // valid afterwards.
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

/// Ready when no more than `left` of the validity is left, however often renewals move its end
/// before.
pub(crate) async fn within(context: &ClientContext, lease: &ActiveLease, left: Duration) {
    loop {
        let changed = lease.changed();
        let mut changed = std::pin::pin!(changed);
        // From here on no change is missed, so the clock is read after this.
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
