//! Asking every node the same, without deciding anything.

use crate::{
    client::{
        environment::Environment,
        fanout::{Fanout, Heard},
    },
    clock::Instant,
    node::{Answer, Inspect, Operation, READERS_SHOWN, Request},
    values::{NodeError, Resource},
};

/// How many readers of each node are unlocked by force for certain: a connection ends where an answer
/// is too long.
const READERS_UNLOCKED: u32 = 128;

/// Asks every node about a resource and waits until each has answered or the deadline has come.
pub(crate) async fn ask_all(
    environment: &Environment,
    resource: &Resource,
    deadline: Instant,
) -> Vec<Answer> {
    let asked = ask(environment, resource, deadline);
    hear_all(environment, asked, deadline).await
}

/// Asks every node about a resource, at the call.
pub(crate) fn ask(environment: &Environment, resource: &Resource, deadline: Instant) -> Fanout<()> {
    ask_operation(environment, inspect(resource, READERS_SHOWN), deadline)
}

/// Asks every node about a resource that is to be unlocked for anybody, at the call.
pub(crate) fn ask_owners(environment: &Environment, resource: &Resource, deadline: Instant) -> Fanout<()> {
    ask_operation(environment, inspect(resource, READERS_UNLOCKED), deadline)
}

/// Asks these nodes about a resource, at the call.
pub(crate) fn ask_those(
    environment: &Environment,
    nodes: impl IntoIterator<Item = usize>,
    resource: &Resource,
    deadline: Instant,
) -> Fanout<()> {
    ask_some(environment, nodes, inspect(resource, READERS_SHOWN), deadline)
}

/// Asks one node more, at the call.
pub(crate) fn ask_node(
    environment: &Environment,
    asked: &mut Fanout<()>,
    node: usize,
    resource: &Resource,
    deadline: Instant,
) {
    let inspect = inspect(resource, READERS_SHOWN);
    asked.send(&environment.nodes, node, (), Request::one(inspect, deadline));
}

fn inspect(resource: &Resource, most_readers: u32) -> Operation {
    Operation::Inspect(Inspect { resource: resource.clone(), most_readers })
}

/// Asks these nodes the same, at the call.
pub(crate) fn ask_some(
    environment: &Environment,
    nodes: impl IntoIterator<Item = usize>,
    operation: Operation,
    deadline: Instant,
) -> Fanout<()> {
    let request = Request::one(operation, deadline);
    let mut fanout = Fanout::new();
    for node in nodes {
        fanout.send(&environment.nodes, node, (), request.clone());
    }
    fanout
}

/// Asks every node the same, at the call.
pub(crate) fn ask_operation(
    environment: &Environment,
    operation: Operation,
    deadline: Instant,
) -> Fanout<()> {
    ask_some(environment, 0..environment.nodes.len(), operation, deadline)
}

/// Waits until each node that was asked has answered or the deadline has come.
pub(crate) async fn hear_all(environment: &Environment, asked: Fanout<()>, deadline: Instant) -> Vec<Answer> {
    hear_with_times(environment, asked, deadline).await.into_iter().map(|(answer, _)| answer).collect()
}

/// The same, and when each answer came; nothing where none did.
pub(crate) async fn hear_with_times(
    environment: &Environment,
    mut asked: Fanout<()>,
    deadline: Instant,
) -> Vec<(Answer, Option<Instant>)> {
    let mut heard = vec![(Answer::Error(NodeError::TimedOut), None); environment.nodes.len()];
    while asked.open() > 0 {
        let Heard::Answer { node, answer, .. } = asked.next(&*environment.clock, deadline).await else {
            break;
        };
        if let Some(slot) = heard.get_mut(node) {
            *slot = (answer, Some(environment.now()));
        }
    }
    heard
}
