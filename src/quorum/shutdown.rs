//! The shutdown of a client, and its report of unconfirmed unlocks.

use std::{collections::BTreeSet, fmt, pin::pin, sync::Arc, time::Duration};

use futures::future::{Either, join_all, select};

use crate::{
    algorithm::residue, client::context::ClientContext, clock::Instant, lock::client::Client,
    node::PendingUnlocks, values::Resource,
};

/// The grace of [`Quorum::shutdown`](crate::Quorum::shutdown): the longest wait for unlocks that block no resource.
pub(crate) const GRACE: Duration = Duration::from_secs(3);

/// The time between two checks of the unconfirmed unlocks after the grace, while a lease blocks its resource because no
/// quorum of nodes has confirmed the unlock.
const RECHECK_DELAY: Duration = Duration::from_millis(50);

/// The largest number of resources of one node that the text of a report names.
const MAX_NAMED: usize = 3;

/// The unlocks that a shutdown has left unconfirmed, from [`Quorum::shutdown`](crate::Quorum::shutdown).
///
/// No lease blocks its resource any more: each lease was unlocked at a quorum, or its ttl has ended. The client sends
/// unconfirmed unlocks again in the background while the runtime runs. A key without a confirmed unlock expires with
/// its ttl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShutdownReport {
    unconfirmed: Vec<(Arc<str>, Vec<Resource>)>,
    stalled_calls: usize,
}

impl ShutdownReport {
    /// Whether every node has confirmed every unlock, and no call is stalled.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.unconfirmed.is_empty() && self.stalled_calls == 0
    }

    /// Returns the addresses of the nodes that have not confirmed every unlock. Each node comes with the resources for
    /// which an unlock, or the withdrawal of a queue entry, is unconfirmed.
    pub fn unconfirmed(&self) -> impl Iterator<Item = (&str, &[Resource])> {
        self.unconfirmed.iter().map(|(node, resources)| (&**node, &**resources))
    }

    /// Returns the number of attempts that could not be rolled back and of queue entries that could not be withdrawn,
    /// because the futures of their calls are neither polled nor dropped.
    #[must_use]
    pub fn stalled_calls(&self) -> usize {
        self.stalled_calls
    }

    /// Returns the report in a forked copy of the process, which has nothing to unlock.
    pub(super) fn of_forked_process() -> Self {
        Self { unconfirmed: Vec::new(), stalled_calls: 0 }
    }

    fn of(client: &Client, undelivered: &[Vec<PendingUnlocks>]) -> Self {
        let context = &*client.context;
        let not_sent = client.leases.ended_with_runtime();
        let resources = |undelivered: &Vec<PendingUnlocks>| -> Vec<Resource> {
            let queued = undelivered.iter().flat_map(|undelivered| undelivered.resources.iter());
            let all: BTreeSet<&Resource> = queued.chain(&not_sent).collect();
            all.into_iter().cloned().collect()
        };
        let nodes = context.nodes.iter().map(|node| Arc::clone(node.address()));
        let unconfirmed =
            nodes.zip(undelivered.iter().map(resources)).filter(|(_, resources)| !resources.is_empty());
        Self { unconfirmed: unconfirmed.collect(), stalled_calls: context.attempts.count() }
    }
}

impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_complete() {
            return write!(f, "complete: every unlock is confirmed, or its keys have expired");
        }
        let mut separator = "";
        for (node, resources) in &self.unconfirmed {
            let named: Vec<String> = resources.iter().take(MAX_NAMED).map(Resource::to_string).collect();
            write!(f, "{separator}{node} has not confirmed the unlock of {}", named.join(", "))?;
            if let more @ 1.. = resources.len().saturating_sub(MAX_NAMED) {
                write!(f, " and {more} more")?;
            }
            separator = "; ";
        }
        if self.stalled_calls > 0 {
            write!(
                f,
                "{separator}calls whose futures are neither polled nor dropped: {}",
                self.stalled_calls
            )?;
        }
        write!(f, "; unconfirmed keys expire with their ttl")
    }
}

/// Ends every lease, rolls back every attempt, and waits like
/// [`Quorum::shutdown_within`](crate::Quorum::shutdown_within).
///
/// # Cancel safety
///
/// As [`Quorum::shutdown_within`](crate::Quorum::shutdown_within).
pub(crate) async fn shutdown(client: &Client, grace: Duration) -> ShutdownReport {
    let context = &*client.context;
    let end_of_grace = context.now() + grace;
    client.close();
    // Attempts in flight have to roll back first, since closed nodes accept no requests. An attempt whose future is
    // polled ends by itself within the attempt timeout.
    let attempts_end = context.clock.sleep_until(context.now() + context.settings.attempt_timeout);
    select(pin!(context.attempts.idle()), attempts_end).await;
    let mut drained = pin!(drained(context));
    loop {
        let now = context.now();
        let undelivered: Vec<_> = context.nodes.iter().map(|node| node.undelivered()).collect();
        let until = blocks_until(context, &undelivered).map_or(end_of_grace, |end| end.max(end_of_grace));
        if until <= now {
            return make_report(client, &undelivered);
        }
        let next_check = if now < end_of_grace { end_of_grace } else { until.min(now + RECHECK_DELAY) };
        if let Either::Left(_) = select(&mut drained, context.clock.sleep_until(next_check)).await {
            return make_report(client, &vec![Vec::new(); context.nodes.len()]);
        }
    }
}

/// Closes the nodes, before the returned future is polled. The future is ready when every unlock is delivered or has
/// expired.
pub(crate) fn drained(context: &ClientContext) -> impl Future<Output = Vec<()>> {
    join_all(context.nodes.iter().map(|node| node.close()))
}

/// Returns the time until which keys of undelivered unlocks may block a resource; `None` if they block no resource.
fn blocks_until(context: &ClientContext, undelivered: &[Vec<PendingUnlocks>]) -> Option<Instant> {
    let left = undelivered.iter().enumerate().flat_map(|(node, undelivered)| {
        undelivered.iter().flat_map(move |undelivered| {
            let end = undelivered.blocks_until.into_iter();
            end.flat_map(move |end| undelivered.resources.iter().map(move |resource| (node, resource, end)))
        })
    });
    residue::blocks_until(context.settings.electorate, left)
}

/// Returns the report of the shutdown, and logs it.
fn make_report(client: &Client, undelivered: &[Vec<PendingUnlocks>]) -> ShutdownReport {
    let report = ShutdownReport::of(client, undelivered);
    if report.is_complete() {
        tracing::debug!("shutdown complete");
    } else {
        tracing::warn!(%report, "shutdown incomplete");
    }
    report
}
