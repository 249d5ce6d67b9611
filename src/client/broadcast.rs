//! Asking every node the same, without deciding anything.

use crate::{
    client::{
        context::ClientContext,
        fanout::{Fanout, FanoutEvent},
    },
    clock::Instant,
    node::{Answer, Inspect, Operation, READERS_SHOWN, Request},
    values::{NodeError, Resource},
};

/// How many readers of each node are unlocked by force for certain: a connection ends where an answer
/// is too long.
const READERS_UNLOCKED: u32 = 128;

/// Asks every node about a resource and waits until each has answered or the deadline has come.
pub(crate) async fn inspect_all(
    context: &ClientContext,
    resource: &Resource,
    deadline: Instant,
) -> Vec<Answer> {
    let asked = send_inspect(context, resource, deadline);
    collect(context, asked, deadline).await
}

/// Asks every node about a resource, at the call.
pub(crate) fn send_inspect(context: &ClientContext, resource: &Resource, deadline: Instant) -> Fanout<()> {
    send_to_all(context, inspect(resource, READERS_SHOWN), deadline)
}

/// Asks every node about a resource that is to be unlocked for anybody, at the call.
pub(crate) fn send_inspect_with_readers(
    context: &ClientContext,
    resource: &Resource,
    deadline: Instant,
) -> Fanout<()> {
    send_to_all(context, inspect(resource, READERS_UNLOCKED), deadline)
}

/// Asks these nodes about a resource, at the call.
pub(crate) fn send_inspect_to(
    context: &ClientContext,
    nodes: impl IntoIterator<Item = usize>,
    resource: &Resource,
    deadline: Instant,
) -> Fanout<()> {
    send_to(context, nodes, inspect(resource, READERS_SHOWN), deadline)
}

/// Asks one node more, at the call.
pub(crate) fn add_inspect(
    context: &ClientContext,
    asked: &mut Fanout<()>,
    node: usize,
    resource: &Resource,
    deadline: Instant,
) {
    let inspect = inspect(resource, READERS_SHOWN);
    asked.send(&context.nodes, node, (), Request::one(inspect, deadline));
}

fn inspect(resource: &Resource, most_readers: u32) -> Operation {
    Operation::Inspect(Inspect { resource: resource.clone(), most_readers })
}

/// Asks these nodes the same, at the call.
pub(crate) fn send_to(
    context: &ClientContext,
    nodes: impl IntoIterator<Item = usize>,
    operation: Operation,
    deadline: Instant,
) -> Fanout<()> {
    let request = Request::one(operation, deadline);
    let mut fanout = Fanout::new();
    for node in nodes {
        fanout.send(&context.nodes, node, (), request.clone());
    }
    fanout
}

/// Asks every node the same, at the call.
pub(crate) fn send_to_all(context: &ClientContext, operation: Operation, deadline: Instant) -> Fanout<()> {
    send_to(context, 0..context.nodes.len(), operation, deadline)
}

/// Waits until each node that was asked has answered or the deadline has come.
pub(crate) async fn collect(context: &ClientContext, asked: Fanout<()>, deadline: Instant) -> Vec<Answer> {
    collect_with_times(context, asked, deadline).await.into_iter().map(|(answer, _)| answer).collect()
}

/// The same, and when each answer came; nothing where none did.
pub(crate) async fn collect_with_times(
    context: &ClientContext,
    mut asked: Fanout<()>,
    deadline: Instant,
) -> Vec<(Answer, Option<Instant>)> {
    let mut heard = vec![(Answer::Error(NodeError::TimedOut), None); context.nodes.len()];
    while asked.outstanding() > 0 {
        let FanoutEvent::Answer { node, answer, .. } = asked.next(&*context.clock, deadline).await else {
            break;
        };
        if let Some(slot) = heard.get_mut(node) {
            *slot = (answer, Some(context.now()));
        }
    }
    heard
}
