//! What else a node may do than its work: for the tests of what is above it.

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

/// What a server does with requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Behaviour {
    /// Its work.
    #[default]
    Granting,
    /// Says that somebody else holds everything.
    Refusing,
    /// Answers everything with this error, and executes nothing.
    Failing(NodeError),
    /// Takes requests and does nothing, until it thaws.
    Hanging,
}

#[derive(Debug, Default)]
pub(super) struct Switch {
    state: Mutex<BehaviourState>,
}

#[derive(Debug, Default)]
struct BehaviourState {
    behaviour: Behaviour,
    swallowed: Vec<(QuorumParameters, Request, Responder)>,
    log: Vec<Arc<[Operation]>>,
}

impl Switch {
    /// Gives the request back if it is to be executed. What is executed, refused or failed is
    /// logged.
    pub(super) fn meet(
        &self,
        parameters: &QuorumParameters,
        request: Request,
        responder: Responder,
    ) -> Option<(Request, Responder)> {
        let mut state = mutex::lock(&self.state);
        if state.behaviour == Behaviour::Hanging {
            state.swallowed.push((parameters.clone(), request, responder));
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

/// What a node says where somebody else holds everything for the longest ttl.
fn refusal(operation: &Operation, parameters: &QuorumParameters) -> Answer {
    let parameters = QuorumParameters { guard: RestartGuard::Off, ..parameters.clone() };
    let (mut node, now) = (NodeState::new("refuses"), NodeTime::from_epoch(0));
    let expires_at = now + parameters.max_ttl;
    for resource in operation.resources() {
        let owner = LeaseId::from_wire(b"somebody:else");
        node.set_lock(resource, Some(HeldKey { owner, holds: 1, expires_at }));
    }
    node.apply(&parameters, operation, now).answer
}

impl MemoryServer {
    /// From now on behaves so. What was swallowed stays so until [`thaw`](Self::thaw).
    pub(crate) fn behave(&self, behaviour: Behaviour) {
        mutex::lock(&self.behaviour.state).behaviour = behaviour;
    }

    /// Does its work from now on, and first what it swallowed, in order: whether or not anybody
    /// still waits, as a process does that was stopped.
    pub(crate) fn thaw(&self) {
        let swallowed = {
            let mut state = mutex::lock(&self.behaviour.state);
            state.behaviour = Behaviour::Granting;
            mem::take(&mut state.swallowed)
        };
        for (parameters, request, responder) in swallowed {
            self.take(&parameters, request, responder);
        }
    }

    /// Executes the oldest request that was swallowed, and goes on hanging. Whether there was one.
    pub(crate) fn answer_next(&self) -> bool {
        let mut state = mutex::lock(&self.behaviour.state);
        if state.swallowed.is_empty() {
            return false;
        }
        let (parameters, request, responder) = state.swallowed.remove(0);
        let behaviour = mem::replace(&mut state.behaviour, Behaviour::Granting);
        drop(state);
        self.take(&parameters, request, responder);
        mutex::lock(&self.behaviour.state).behaviour = behaviour;
        true
    }

    /// The operations that were answered so far, in order; and forgets them.
    pub(crate) fn take_log(&self) -> Vec<Operation> {
        self.take_requests().iter().flat_map(|operations| operations.iter().cloned()).collect()
    }

    /// As [`take_log`](Self::take_log), request by request.
    pub(crate) fn take_requests(&self) -> Vec<Arc<[Operation]>> {
        mem::take(&mut mutex::lock(&self.behaviour.state).log)
    }

    /// Publishes a notice, as anybody may who can publish there.
    pub(crate) fn publish(&self, topic: &Resource) {
        self.listeners.notify(topic);
    }

    /// How many requests it has swallowed and not executed.
    pub(crate) fn swallowed(&self) -> usize {
        mutex::lock(&self.behaviour.state).swallowed.len()
    }
}
