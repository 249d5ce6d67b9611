//! The check whether all clients count the same number of permits for a semaphore.
//!
//! No node enforces a number. A node records the number of the client that has checked last, and returns the number
//! before. The request of the check is sent before the first lock request of a call, at most once a minute for each
//! semaphore, so both requests usually are one message. The call does not wait for the answers.
//!
//! The first two nodes in the queue node order of the semaphore record the number. With all nodes, the checks of many
//! new clients cost the waiters at busy nodes half as many calls again (S90). If two clients differ about one silent
//! node, their pairs still share a node.

use std::sync::Arc;

use futures::FutureExt;

use crate::{
    client::{broadcast::send_to, context::ClientContext, fanout::FanoutEvent, permit_counts::KEPT_FOR},
    node::{Answer, CountPermits, Operation},
    values::Resource,
};

/// The number of nodes that record the numbers of permits of a semaphore.
const RECORDING_NODES: usize = 2;

/// Sends the number of permits to two nodes if a check is due. A different number in the first answers is logged as a
/// warning, once for each client.
///
/// A failure of the check has no effect, because the check is not necessary for any lease.
pub(super) fn check_permit_count(context: &Arc<ClientContext>, semaphore: &Resource, permits: u32) {
    if !context.permit_counts.is_due(semaphore, permits, context.now()) {
        return;
    }
    let deadline = context.now() + context.settings.node_timeout_for(context.settings.ttl);
    let semaphore = semaphore.clone();
    let count = CountPermits { semaphore: semaphore.clone(), permits, ttl: KEPT_FOR };
    let nodes = context.queue_node_order(&semaphore).into_iter().take(RECORDING_NODES);
    let mut fanout = send_to(context, nodes, Operation::CountPermits(count), deadline);
    // The task must not keep the client alive.
    let (clock, context_of_task) = (Arc::clone(&context.clock), Arc::downgrade(context));
    let answers = async move {
        let (mut has_answer, mut differs) = (false, false);
        while fanout.outstanding() > 0 {
            let FanoutEvent::Answer { answer, .. } = fanout.next(&*clock, deadline).await else { break };
            let Answer::PermitsCounted { before } = answer else { continue };
            has_answer = true;
            let Some(other) = before.filter(|other| *other != permits) else { continue };
            differs = true;
            if let Some(context) = context_of_task.upgrade()
                && context.permit_counts.counted_elsewhere(&semaphore, permits, other)
            {
                tracing::warn!(
                    %semaphore, permits, elsewhere = other,
                    "another client counts a different number of permits"
                );
                context.observer.permit_counts_differ();
            }
        }
        if let Some(context) = context_of_task.upgrade().filter(|_| has_answer && !differs) {
            context.permit_counts.counted_equally(&semaphore, permits);
        }
    };
    drop(context.spawner.spawn(answers.boxed()));
}
