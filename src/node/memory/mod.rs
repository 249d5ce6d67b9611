//! In-memory nodes: the pure node behind a mutex, for tests, examples and quorums within one process.
//!
//! ```text
//!  call ──► execute, under the mutex: each operation in order;    ──answers──► reply, ready at once
//!           a registration if the node asks for it;               ──notices──► listeners, without the mutex
//!           a sweep of expired data after SWEEP_AFTER operations
//! ```

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use futures::future::{self, BoxFuture, FutureExt};

#[cfg(test)]
pub(crate) use self::behaviour::Behaviour;
pub use self::cluster::MemoryCluster;
use crate::{
    clock::Clock,
    mutex,
    node::{
        Answer, Listener, NewNodes, Node, Notice, Operation, PendingUnlocks, QuorumParameters, Register,
        Reply, Request, Responder, RestartGuard, Subscription,
        memory::listeners::Listeners,
        state::{NodeState, NodeTime},
    },
    values::{ClosedReason, NodeError, Resource},
};

#[cfg(test)]
mod behaviour;
mod cluster;
mod listeners;
#[cfg(test)]
mod probe;
#[cfg(test)]
mod tests;

/// The number of operations after which a server deletes expired data. Without these sweeps, a long-lived server
/// would grow without bound.
const SWEEP_AFTER: u32 = 1024;

/// One independent in-memory server, which several clients share.
#[derive(Debug)]
pub(crate) struct MemoryServer {
    clock: Arc<dyn Clock>,
    memory: Mutex<Memory>,
    listeners: Listeners,
    #[cfg(test)]
    behaviour: behaviour::BehaviourSwitch,
}

#[derive(Debug)]
struct Memory {
    state: NodeState,
    since_sweep: u32,
}

impl MemoryServer {
    /// Returns an empty server. `incarnation` is a number that no other incarnation of the server has.
    pub(crate) fn new(clock: Arc<dyn Clock>, incarnation: u64) -> Arc<Self> {
        let state = NodeState::new(&format!("{incarnation:040x}"));
        Arc::new(Self {
            clock,
            memory: Mutex::new(Memory { state, since_sweep: 0 }),
            listeners: Listeners::default(),
            #[cfg(test)]
            behaviour: behaviour::BehaviourSwitch::default(),
        })
    }

    /// Returns the server's own time.
    pub(crate) fn now(&self) -> NodeTime {
        let time_of_day = self.clock.time_of_day().as_millis();
        NodeTime::from_epoch(u64::try_from(time_of_day).unwrap_or(u64::MAX))
    }

    /// Executes a request, sends its notices, and answers the request.
    fn handle(&self, parameters: &QuorumParameters, request: Request, responder: Responder) {
        #[cfg(test)]
        let Some((request, responder)) = self.behaviour.intercept(parameters, request, responder) else {
            return;
        };
        let (answers, notices) = self.execute(parameters, &request.operations);
        // The mutex is not locked here, because a listener may call the node at once.
        for topic in &notices {
            self.listeners.notify(topic);
        }
        responder.answer(answers);
    }

    /// Executes operations. Returns the answers, and the topics of the notices.
    fn execute(
        &self,
        parameters: &QuorumParameters,
        operations: &[Operation],
    ) -> (Vec<Answer>, Vec<Resource>) {
        let now = self.now();
        let mut memory = mutex::lock(&self.memory);
        let mut answers = Vec::with_capacity(operations.len());
        let mut notices = Vec::new();
        for operation in operations {
            let listeners = |topic: &Resource| Some(self.listeners.count_of(topic));
            let outcome = memory.state.apply_with_listeners(&listeners, parameters, operation, now);
            let is_of_administrator =
                matches!(operation, Operation::Reconfigure(_) | Operation::RecordReplacements(_));
            if outcome.answer.is_not_registered() && !is_of_administrator {
                // A client registers on each connection to a remote node. An in-memory node has no connections, so the
                // server registers here. The node votes again after its quarantine. The client of an administrator does
                // not register.
                let register = Register { new_nodes: NewNodes::Quarantine, time: now.since_epoch() };
                memory.state.apply(parameters, &Operation::Register(register), now);
            }
            answers.push(outcome.answer);
            notices.extend(outcome.notices);
            memory.since_sweep += 1;
        }
        if memory.since_sweep >= SWEEP_AFTER {
            memory.state.sweep(now);
            memory.since_sweep = 0;
        }
        (answers, notices)
    }
}

/// The connection of one client to a [`MemoryServer`], which answers at once.
#[derive(Debug)]
pub(crate) struct MemoryNode {
    server: Arc<MemoryServer>,
    address: Arc<str>,
    parameters: QuorumParameters,
    is_closed: AtomicBool,
}

impl MemoryNode {
    pub(crate) fn new(
        server: Arc<MemoryServer>,
        address: Arc<str>,
        mut parameters: QuorumParameters,
        new_nodes: NewNodes,
    ) -> Self {
        if parameters.guard != RestartGuard::Off {
            let register = Register { new_nodes, time: server.now().since_epoch() };
            let (answers, _) = server.execute(&parameters, &[Operation::Register(register)]);
            if let Some(Answer::Registered(registration)) = answers.into_iter().next() {
                parameters.incarnation = registration.incarnation;
            }
        }
        Self { server, address, parameters, is_closed: AtomicBool::new(false) }
    }
}

impl Node for MemoryNode {
    fn address(&self) -> &Arc<str> {
        &self.address
    }

    fn call(&self, request: Request) -> Reply {
        let operations = request.operations.len();
        if self.is_closed.load(Ordering::Acquire) && !request.operations.iter().all(Operation::must_deliver) {
            return Reply::error(operations, &NodeError::Closed(ClosedReason::ShutDown));
        }
        let (responder, reply) = Reply::channel(operations);
        self.server.handle(&self.parameters, request, responder);
        reply
    }

    fn subscribe(&self, topic: &Resource, listener: Arc<dyn Listener>) -> Subscription {
        let number = self.server.listeners.add(topic, Arc::clone(&listener));
        listener.notice(Notice::Subscribed);
        let (server, topic) = (Arc::clone(&self.server), topic.clone());
        Subscription::new(move || server.listeners.remove(&topic, number))
    }

    fn undelivered(&self) -> Vec<PendingUnlocks> {
        Vec::new()
    }

    /// Returns at once, because no unlock is ever undelivered.
    fn close(&self) -> BoxFuture<'_, ()> {
        self.is_closed.store(true, Ordering::Release);
        future::ready(()).boxed()
    }
}
