//! Faulty behaviour of in-memory nodes, for tests of the layers above.

use std::{
    mem,
    sync::{Arc, Mutex},
};

use crate::{
    mutex,
    node::{
        Answer, Operation, QuorumParameters, Request, Responder, RestartGuard,
        memory::MemoryServer,
        state::{HeldKey, NodeState, NodeTime},
    },
    values::{LeaseId, NodeError, Resource},
};

/// The treatment of requests by a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Executes requests.
    #[default]
    Granting,
    /// Answers that another lease holds every resource, and executes nothing.
    Refusing,
    /// Answers every operation with this error, and executes nothing.
    Failing(NodeError),
    /// Accepts requests, and executes none until [`thaw`](MemoryServer::thaw).
    Hanging,
}

/// The present behaviour of a server.
#[derive(Debug, Default)]
pub(super) struct BehaviourSwitch {
    state: Mutex<BehaviourState>,
}

#[derive(Debug, Default)]
struct BehaviourState {
    behaviour: Behaviour,
    /// The accepted requests of a hanging server, in order of arrival.
    pending: Vec<(QuorumParameters, Request, Responder)>,
    /// The operations of the answered requests, request by request.
    log: Vec<Arc<[Operation]>>,
}

impl BehaviourSwitch {
    /// Returns the request if the server must execute the request now. Otherwise, answers the request or adds the
    /// request to the pending requests.
    pub(super) fn intercept(
        &self,
        parameters: &QuorumParameters,
        request: Request,
        responder: Responder,
    ) -> Option<(Request, Responder)> {
        let mut state = mutex::lock(&self.state);
        if state.behaviour == Behaviour::Hanging {
            state.pending.push((parameters.clone(), request, responder));
            return None;
        }
        state.log.push(Arc::clone(&request.operations));
        let behaviour = state.behaviour.clone();
        drop(state);
        match behaviour {
            Behaviour::Failing(error) => responder.error(&error),
            Behaviour::Refusing => {
                let refusals = request.operations.iter().map(|operation| refusal(operation, parameters));
                responder.answer(refusals.collect());
            }
            Behaviour::Granting | Behaviour::Hanging => return Some((request, responder)),
        }
        None
    }
}

/// Returns the answer of a node on which another lease holds every resource, for the longest ttl.
fn refusal(operation: &Operation, parameters: &QuorumParameters) -> Answer {
    let parameters = QuorumParameters { guard: RestartGuard::Off, ..parameters.clone() };
    let (mut node, now) = (NodeState::new("refuses"), NodeTime::from_epoch(0));
    let expires_at = now + parameters.max_ttl;
    for resource in operation.resources() {
        let lease_id = LeaseId::from_wire(b"somebody:else");
        node.set_lock(resource, Some(HeldKey { lease_id, holds: 1, expires_at }));
    }
    node.apply(&parameters, operation, now).answer
}

impl MemoryServer {
    /// Sets the behaviour. Pending requests wait until [`thaw`](Self::thaw).
    pub(crate) fn behave(&self, behaviour: Behaviour) {
        mutex::lock(&self.behaviour.state).behaviour = behaviour;
    }

    /// Deletes all data of the server, as `FLUSHALL` does.
    pub(crate) fn flush(&self) {
        mutex::lock(&self.memory).state.flush();
    }

    /// Executes the pending requests in order, and all requests from now on.
    ///
    /// A pending request is executed even if its caller has dropped the reply, as by a server process that was stopped
    /// and continued.
    pub(crate) fn thaw(&self) {
        let pending = {
            let mut state = mutex::lock(&self.behaviour.state);
            state.behaviour = Behaviour::Granting;
            mem::take(&mut state.pending)
        };
        for (parameters, request, responder) in pending {
            self.handle(&parameters, request, responder);
        }
    }

    /// Executes the oldest pending request, and keeps the present behaviour. Returns false if no request is pending.
    pub(crate) fn answer_next(&self) -> bool {
        let mut state = mutex::lock(&self.behaviour.state);
        if state.pending.is_empty() {
            return false;
        }
        let (parameters, request, responder) = state.pending.remove(0);
        let behaviour = mem::replace(&mut state.behaviour, Behaviour::Granting);
        drop(state);
        self.handle(&parameters, request, responder);
        mutex::lock(&self.behaviour.state).behaviour = behaviour;
        true
    }

    /// Returns the answered operations in order, and clears the log.
    pub(crate) fn take_log(&self) -> Vec<Operation> {
        self.take_requests().iter().flat_map(|operations| operations.iter().cloned()).collect()
    }

    /// Returns the operations of the answered requests, request by request, and clears the log.
    pub(crate) fn take_requests(&self) -> Vec<Arc<[Operation]>> {
        mem::take(&mut mutex::lock(&self.behaviour.state).log)
    }

    /// Publishes a notice that no operation has caused.
    pub(crate) fn publish(&self, topic: &Resource) {
        self.listeners.notify(topic);
    }

    /// Returns the number of pending requests.
    pub(crate) fn pending_requests(&self) -> usize {
        mutex::lock(&self.behaviour.state).pending.len()
    }
}
