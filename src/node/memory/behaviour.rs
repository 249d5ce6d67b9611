//! What else a node may do than its work: for the tests of what is above it.

use std::{
    mem,
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::{
    mutex,
    node::{
        Answer, Entry, HeldBy, Holder, Inspection, Observation, Queued, QuorumParameters, Request, Responder,
        answer::Registration, memory::MemoryServer,
    },
    values::{NodeError, OwnerId},
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
    log: Vec<Arc<[Entry]>>,
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
        state.log.push(Arc::clone(&request.entries));
        let behaviour = state.behaviour.clone();
        drop(state);
        match behaviour {
            Behaviour::Failing(error) => responder.error(&error),
            Behaviour::Refusing => {
                responder
                    .answer(request.entries.iter().map(|entry| refusal(entry, parameters.max_ttl)).collect());
            }
            Behaviour::Granting | Behaviour::Hanging => return Some((request, responder)),
        }
        None
    }
}

fn refusal(entry: &Entry, remaining: Duration) -> Answer {
    let owner = Some(OwnerId::from_wire(b"somebody:else"));
    match entry {
        Entry::Lock(_) | Entry::Renew(_) => {
            Answer::Held(Holder { resource: 0, owner, remaining, counter: 0 })
        }
        Entry::Enqueue(_) => {
            let holder = Some(Holder { resource: 0, owner, remaining, counter: 0 });
            Answer::Queued(Queued { resource: 0, ticket: 0, rank: 0, patience: remaining, holder })
        }
        Entry::Withdraw(_) => Answer::Withdrawn,
        Entry::WriteBack(_) => Answer::NotWrittenBack { counter: 0 },
        Entry::Unlock(_) | Entry::ForceUnlock(_) => Answer::Unlocked { deleted: 0 },
        Entry::Proclaim(_) => Answer::NotLeader,
        Entry::Observe(_) => Answer::Observed(Observation { owner, remaining: Some(remaining), said: None }),
        Entry::Register(_) | Entry::Init(_) | Entry::Reconfigure(_) => {
            Answer::Registered(Registration { incarnation: None, quarantine: None })
        }
        Entry::Inspect(_) => {
            let held = HeldBy { owner, holds: 1, remaining: Some(remaining) };
            Answer::Inspected(Inspection {
                held: Some(held),
                counter: 0,
                incarnation: None,
                fingerprint: None,
                abstention: None,
            })
        }
    }
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

    /// The entries that were answered so far, in order; and forgets them.
    pub(crate) fn take_log(&self) -> Vec<Entry> {
        self.take_requests().iter().flat_map(|entries| entries.iter().cloned()).collect()
    }

    /// As [`take_log`](Self::take_log), request by request.
    pub(crate) fn take_requests(&self) -> Vec<Arc<[Entry]>> {
        mem::take(&mut mutex::lock(&self.behaviour.state).log)
    }

    /// How many requests it has swallowed and not executed.
    pub(crate) fn swallowed(&self) -> usize {
        mutex::lock(&self.behaviour.state).swallowed.len()
    }
}
