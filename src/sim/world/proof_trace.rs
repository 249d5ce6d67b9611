//! The record of a run for the proof: every event of a client that the model of `tests/proof` has. `tests/proof/check.ml`
//! accepts the record if each event is a step of a client of the model.
//!
//! A line is `quorum QUORUM NODES NEEDED MAX_TTL ATTEMPT_TIMEOUT DRIFT_PPM`, for each client, or `TIME CLOCK QUORUM
//! PROCESS EVENT LEASE ARGUMENTS`, with the clock of the client. All times are nanoseconds. Processes, nodes and leases
//! have numbers from 0.
//!
//! | event | meaning | arguments |
//! |---|---|---|
//! | `begin` | The client sends the first request of an attempt. | ttl, token of the ticket to redeem or 0 |
//! | `vote` | A node grants the lock. | node, ttl of the request, vote |
//! | `write_back` | A node confirms the token. | node, token |
//! | `grant` | The client has the lease. | token, end of the validity |
//! | `renewal` | The client begins a renewal. | ttl |
//! | `renewed` | A node executes a renewal, which counts. | node, ttl of the request |
//! | `extend` | The client counts a renewal. | end of the validity |
//! | `end` | The attempt or the lease is over. | |
//! | `unlock` | A node deletes the key of the lease. | node |

use std::{collections::BTreeMap, ops::Range, time::Duration};
#[cfg(test)]
use std::{env, fs::OpenOptions, io::Write as _, path::PathBuf};

use super::WorldState;
use crate::{
    clock::Instant,
    config::CheckedQuorum,
    node::{Answer, Enqueue, Lock, Operation, Transfer},
    values::LeaseId,
};
#[cfg(test)]
use crate::{mutation, sim::Report};

#[cfg(test)]
thread_local! {
    static IS_ON: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Starts or ends the recording of traces for the simulations of this thread.
#[cfg(test)]
pub(crate) fn keep_traces(is_on: bool) {
    IS_ON.set(is_on);
}

/// Returns the folder for the traces of all runs of the tests; `None` if no folder is given, or if a rule is broken.
#[cfg(test)]
fn folder() -> Option<PathBuf> {
    env::var_os("REDQUORUM_PROOF_TRACES").filter(|_| mutation::broken().is_none()).map(PathBuf::from)
}

/// Adds the trace of a run to the file of its test, if a folder is given.
#[cfg(test)]
pub(crate) fn write_trace(report: &Report) {
    let (Some(folder), Some(trace)) = (folder(), &report.proof_trace) else { return };
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("run");
    let path = folder.join(format!("{}.trace", name.replace("::", "-")));
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(format!("run {name}\n{trace}").as_bytes()).unwrap();
}

/// Whether the simulations of this thread record traces: never outside of tests.
fn is_on() -> bool {
    #[cfg(test)]
    return IS_ON.get() || folder().is_some();
    #[cfg(not(test))]
    false
}

/// The trace of a run.
#[derive(Debug, Default)]
pub(crate) struct ProofTrace {
    text: String,
    leases: BTreeMap<LeaseId, TracedLease>,
    /// The lease id of each attempt.
    by_attempt: BTreeMap<u64, LeaseId>,
}

/// The record of a lease id in the trace.
#[derive(Debug)]
struct TracedLease {
    number: usize,
    process: usize,
    /// The nodes of the client.
    nodes: Range<usize>,
    /// Whether a request of the last attempt with this lease id was sent.
    has_begun: bool,
    /// Whether a client has the lease, or has had the lease: not for a ticket.
    is_granted: bool,
    has_ended: bool,
}

impl ProofTrace {
    /// Returns an empty trace; `None` if the run records no trace.
    pub(super) fn new() -> Option<Self> {
        is_on().then(Self::default)
    }

    /// Adds a line, unless it repeats the last line: a renewal begins at several nodes at the same time.
    fn push(&mut self, line: &str) {
        if self.text.lines().next_back() == Some(line) {
            return;
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    #[cfg(test)]
    pub(super) fn into_text(self) -> String {
        self.text
    }
}

fn nanos(duration: Duration) -> u128 {
    duration.as_nanos()
}

impl WorldState {
    /// Records the settings of a client of these nodes.
    pub(crate) fn trace_quorum(&mut self, nodes: &Range<usize>, settings: &CheckedQuorum) {
        let Some(trace) = &mut self.proof_trace else { return };
        let (electorate, max_ttl) = (settings.electorate, nanos(settings.parameters.max_ttl));
        let (timeout, drift) = (nanos(settings.attempt_timeout), settings.validity.drift_ppm());
        let (number, needed) = (electorate.nodes(), electorate.needed());
        trace.push(&format!("quorum {nodes:?} {number} {needed} {max_ttl} {timeout} {drift}"));
    }

    /// Records which lease id an attempt has.
    pub(super) fn trace_attempt(
        &mut self,
        attempt: u64,
        lease_id: &LeaseId,
        process: usize,
        nodes: &Range<usize>,
    ) {
        let Some(trace) = &mut self.proof_trace else { return };
        trace.by_attempt.insert(attempt, lease_id.clone());
        let number = trace.leases.len();
        let number = trace.leases.get(lease_id).map_or(number, |lease| lease.number);
        let lease = TracedLease {
            number,
            process,
            nodes: nodes.clone(),
            has_begun: false,
            is_granted: false,
            has_ended: false,
        };
        trace.leases.insert(lease_id.clone(), lease);
    }

    /// Records an event of a lease. `arguments` gets the first node of the client.
    fn trace_event(&mut self, lease_id: &LeaseId, event: &str, arguments: impl FnOnce(usize) -> String) {
        let Some(lease) = self.proof_trace.as_ref().and_then(|trace| trace.leases.get(lease_id)) else {
            return;
        };
        let (now, clock) = (u128::from(self.now()) * 1000, u128::from(self.local(lease.process)) * 1000);
        let TracedLease { number, process, nodes, .. } = lease;
        let arguments = arguments(nodes.start);
        let line = format!("{now} {clock} {nodes:?} {process} {event} {number} {arguments}");
        if let Some(trace) = &mut self.proof_trace {
            trace.push(line.trim_end());
        }
    }

    fn trace_event_of_attempt(&mut self, attempt: u64, event: &str, arguments: String) {
        let lease_id = self.proof_trace.as_ref().and_then(|trace| trace.by_attempt.get(&attempt)).cloned();
        if let Some(lease_id) = lease_id {
            self.trace_event(&lease_id, event, |_| arguments);
        }
    }

    /// Records the beginning of an attempt, unless the attempt has begun before.
    fn trace_begin(&mut self, lease_id: &LeaseId, ttl: Duration, proof: Option<u64>) {
        let lease = self.proof_trace.as_mut().and_then(|trace| trace.leases.get_mut(lease_id));
        if lease.is_some_and(|lease| !std::mem::replace(&mut lease.has_begun, true)) {
            self.trace_event(lease_id, "begin", |_| format!("{} {}", nanos(ttl), proof.unwrap_or(0)));
        }
    }

    /// Records that a process sends these operations.
    pub(super) fn trace_sent(&mut self, operations: &[Operation]) {
        if self.proof_trace.is_none() {
            return;
        }
        for operation in operations {
            match operation {
                Operation::Lock(lock) | Operation::Enqueue(Enqueue { lock, .. }) => {
                    self.trace_begin(&lock.lease_id, lock.ttl, None);
                }
                Operation::Transfer(Transfer { lock, from, proof }) => {
                    self.trace_end_of_ticket(from);
                    self.trace_begin(&lock.lease_id, lock.ttl, *proof);
                }
                Operation::Unlock(unlock) => self.trace_end_of_ticket(&unlock.lease_id),
                _ => {}
            }
        }
    }

    /// Records the answers of a node.
    pub(super) fn trace_answers(&mut self, node: usize, operations: &[Operation], answers: &[Answer]) {
        if self.proof_trace.is_none() {
            return;
        }
        for (operation, answer) in operations.iter().zip(answers) {
            match (operation, answer.without_waiters()) {
                (
                    Operation::Lock(lock) | Operation::Enqueue(Enqueue { lock, .. }),
                    Answer::Granted { vote },
                ) => self.trace_vote(node, lock, *vote),
                (Operation::Transfer(Transfer { lock, from, .. }), Answer::Granted { vote }) => {
                    self.trace_event(from, "unlock", |first| (node - first).to_string());
                    self.trace_vote(node, lock, *vote);
                }
                (Operation::WriteBack(write_back), Answer::WrittenBack) => {
                    let token = write_back.token;
                    self.trace_event(&write_back.lease_id, "write_back", |first| {
                        format!("{} {token}", node - first)
                    });
                }
                (Operation::Renew(renew), Answer::Renewed { .. }) => {
                    let ttl = nanos(renew.ttl);
                    self.trace_event(&renew.lease_id, "renewed", |first| format!("{} {ttl}", node - first));
                }
                (Operation::Unlock(unlock), Answer::Unlocked { deleted: 1.. }) => {
                    self.trace_event(&unlock.lease_id, "unlock", |first| (node - first).to_string());
                }
                _ => {}
            }
        }
    }

    fn trace_vote(&mut self, node: usize, lock: &Lock, vote: u64) {
        let ttl = nanos(lock.ttl);
        self.trace_event(&lock.lease_id, "vote", |first| format!("{} {ttl} {vote}", node - first));
    }

    /// Records the grant of a lease.
    pub(super) fn trace_grant(&mut self, attempt: u64, token: u64, valid_until: Instant) {
        let until = nanos(valid_until.since_origin());
        self.trace_event_of_attempt(attempt, "grant", format!("{token} {until}"));
        if let Some(lease) = self.traced_attempt(attempt) {
            lease.is_granted = true;
        }
    }

    /// Records that a client begins a renewal.
    pub(super) fn trace_renewal(&mut self, attempt: u64, ttl: Duration) {
        self.trace_event_of_attempt(attempt, "renewal", nanos(ttl).to_string());
    }

    /// Records that a client counts a renewal.
    pub(super) fn trace_extension(&mut self, attempt: u64, valid_until: Instant) {
        self.trace_event_of_attempt(attempt, "extend", nanos(valid_until.since_origin()).to_string());
    }

    /// Records the end of an attempt or of its lease.
    pub(super) fn trace_end(&mut self, attempt: u64) {
        let lease_id = self.proof_trace.as_ref().and_then(|trace| trace.by_attempt.get(&attempt)).cloned();
        if let Some(lease_id) = lease_id {
            self.trace_end_of(&lease_id);
        }
    }

    /// Records the end of a ticket, or of an attempt that is rolled back, when the first transfer or unlock is sent. The
    /// end of a lease has its own report.
    fn trace_end_of_ticket(&mut self, lease_id: &LeaseId) {
        let lease = self.proof_trace.as_ref().and_then(|trace| trace.leases.get(lease_id));
        if lease.is_some_and(|lease| !lease.is_granted) {
            self.trace_end_of(lease_id);
        }
    }

    /// Records an end once. A request of the attempt may be sent after the end, so an attempt without a request begins
    /// at the latest now.
    fn trace_end_of(&mut self, lease_id: &LeaseId) {
        let lease = self.proof_trace.as_mut().and_then(|trace| trace.leases.get_mut(lease_id));
        if lease.is_some_and(|lease| !std::mem::replace(&mut lease.has_ended, true)) {
            self.trace_begin(lease_id, Duration::ZERO, None);
            self.trace_event(lease_id, "end", |_| String::new());
        }
    }

    fn traced_attempt(&mut self, attempt: u64) -> Option<&mut TracedLease> {
        let trace = self.proof_trace.as_mut()?;
        trace.leases.get_mut(trace.by_attempt.get(&attempt)?)
    }
}
