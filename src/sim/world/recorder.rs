//! The record of attempts and leases in the history, and the check for residual keys at the end of the run.
//!
//! ```text
//!  attempt began ─> lost
//!               └─> granted ─> valid until its end by the process's clock, or unlocked ─> ended
//!
//!  all programs have ended ─> every `SETTLE_INTERVAL`, until nothing is in flight
//!                             or `MAX_SETTLE_CHECKS` are done ─> record residue, end the run
//! ```

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Duration};

use super::{World, WorldState, event::WorldEvent};
use crate::{
    clock::Instant,
    node::{Resources, remote::Monitor},
    observer::{LeaseEnd, ObservedLease, Observer},
    sim::{
        clock::micros,
        history::{self, AttemptId},
        report::End,
    },
    values::LeaseId,
};

/// An observer that records all attempts and leases of one process.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) world: World,
    pub(crate) process: usize,
    /// The nodes of the clients; `None` if the trace of a proof leaves the clients out.
    pub(crate) nodes: Option<Range<usize>>,
}

/// The attempts and the active leases of a run.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    next_attempt: u64,
    /// The attempt and the process of each lease id.
    by_lease_id: BTreeMap<LeaseId, (u64, usize)>,
    /// The process and the lease of each attempt whose lease has not ended.
    active: BTreeMap<u64, (usize, Arc<dyn ObservedLease>)>,
    /// The time at which each attempt failed or its lease ended.
    over_at: BTreeMap<u64, u64>,
    /// The number of times that [`settle`](WorldState::settle) was called.
    settle_checks: u32,
}

impl Monitor for Recorder {}

impl Observer for Recorder {
    fn attempt_began(&self, resources: &Resources, lease_id: &LeaseId) -> u64 {
        let mut state = self.world.lock();
        let number = state.leases.next_attempt;
        state.leases.next_attempt += 1;
        state.leases.by_lease_id.insert(lease_id.clone(), (number, self.process));
        if let Some(nodes) = &self.nodes {
            state.trace_attempt(number, lease_id, self.process, nodes);
        }
        let attempt = AttemptId::new(number);
        let shared = resources.each().filter(|(_, is_shared)| *is_shared).map(|(name, _)| name.clone());
        let shared = shared.collect();
        state.note(self.process, history::Event::Began { attempt, resources: resources.to_vec(), shared });
        number
    }

    fn attempt_lost(&self, attempt: u64) {
        let mut state = self.world.lock();
        let now = state.now();
        state.leases.over_at.insert(attempt, now);
        state.trace_end(attempt);
        state.note(self.process, history::Event::Lost { attempt: AttemptId::new(attempt) });
    }

    fn lease_granted(&self, lease: &Arc<dyn ObservedLease>) {
        let mut state = self.world.lock();
        let attempt = AttemptId::new(lease.attempt());
        state.note(self.process, history::Event::Granted { attempt, token: lease.token() });
        state.trace_grant(lease.attempt(), lease.token().as_u64(), lease.valid_until());
        state.leases.active.insert(lease.attempt(), (self.process, Arc::clone(lease)));
        state.check_lease(lease.attempt());
        // From its grant on, the lease is valid for the holder.
        state.note(self.process, history::Event::Checked { attempt, is_valid: true });
    }

    fn renewal_began(&self, attempt: u64, ttl: Duration) {
        self.world.lock().trace_renewal(attempt, ttl);
    }

    fn lease_extended(&self, attempt: u64, valid_until: Instant) {
        self.world.lock().trace_extension(attempt, valid_until);
    }

    fn lease_ended(&self, lease: &dyn ObservedLease, end: LeaseEnd, _: Duration) {
        let is_unlocked = !matches!(end, LeaseEnd::Lost(_));
        let mut state = self.world.lock();
        state.trace_end(lease.attempt());
        state.end_lease(lease.attempt(), is_unlocked);
    }
}

impl WorldState {
    /// Records the end of a lease if its validity has ended by the process's clock. Otherwise
    /// schedules the next check at that end.
    pub(super) fn check_lease(&mut self, attempt: u64) {
        let Some((process, lease)) = self.leases.active.get(&attempt) else { return };
        let (process, valid_until) = (*process, lease.valid_until());
        if Instant::from_origin(Duration::from_micros(self.local(process))) >= valid_until {
            return self.end_lease(attempt, false);
        }
        let Some(process) = self.processes.get(process) else { return };
        // A frozen clock never reaches the end. The check is repeated when the freeze ends.
        if let Some(at) = process.clock.global(micros(valid_until.since_origin())) {
            self.at(at, WorldEvent::Validity(attempt));
        }
    }

    /// Checks all leases of a process, after its clock was frozen.
    pub(super) fn check_leases_of(&mut self, process: usize) {
        let of_process = self.leases.active.iter().filter(|(_, (of, _))| *of == process);
        let attempts: Vec<u64> = of_process.map(|(attempt, _)| *attempt).collect();
        attempts.into_iter().for_each(|attempt| self.check_lease(attempt));
    }

    /// Ends all leases of a killed process, which no longer acts under a lease.
    pub(super) fn end_leases_of(&mut self, process: usize) {
        let of_process = self.leases.active.iter().filter(|(_, (of, _))| *of == process);
        let attempts: Vec<u64> = of_process.map(|(attempt, _)| *attempt).collect();
        attempts.into_iter().for_each(|attempt| self.end_lease(attempt, false));
    }

    fn end_lease(&mut self, attempt: u64, is_unlocked: bool) {
        if let Some((process, _)) = self.leases.active.remove(&attempt) {
            let now = self.now();
            self.leases.over_at.insert(attempt, now);
            self.note(process, history::Event::Ended { attempt: AttemptId::new(attempt), is_unlocked });
        }
    }

    /// Records the announcement of a loss to the holder. A process that was paused at the end of the lease
    /// cannot announce the loss before the process resumes. An announcement at the instant at which the
    /// process resumes is in time, and is not recorded.
    pub(crate) fn announce(&mut self, process: usize, attempt: AttemptId) {
        let ended_at = self.leases.over_at.get(&attempt.as_u64()).copied();
        let resumed_at = ended_at.and_then(|ended_at| self.resumed_after(process, ended_at));
        if resumed_at != Some(self.now()) {
            self.note(process, history::Event::Announced { attempt });
        }
    }

    /// Begins the end of the run after all programs have ended: schedules the first check for
    /// residue.
    pub(super) fn wind_down(&mut self) {
        let now = self.now();
        let faults_end = micros(self.schedule.faults_end());
        self.at(now.max(faults_end).saturating_add(SETTLE_INTERVAL), WorldEvent::Settle);
    }

    /// Ends the run, after recording keys that outlived their attempts. If messages are in flight,
    /// schedules another call instead, up to [`MAX_SETTLE_CHECKS`] calls.
    pub(super) fn settle(&mut self) {
        self.leases.settle_checks += 1;
        if self.network.in_flight > 0 && self.leases.settle_checks < MAX_SETTLE_CHECKS {
            let now = self.now();
            self.at(now + SETTLE_INTERVAL, WorldEvent::Settle);
            return;
        }
        for (attempt, process, node) in self.residue() {
            self.note(process, history::Event::Residue { attempt: AttemptId::new(attempt), node });
        }
        self.finish(End::Done);
    }

    /// Returns the attempt, process and node of each key that the client should have deleted. The time to
    /// delete a key ends [`SETTLE_INTERVAL`] after the end of its attempt and of the last fault between
    /// process and node. A key that expires later is residue. A key that has expired meanwhile counts,
    /// too: the node keeps its data until the next lock of the resource, so residue is found even if the
    /// run lasts longer than the ttl.
    fn residue(&self) -> Vec<(u64, usize, usize)> {
        let mut residue = Vec::new();
        for (node, server) in self.servers.iter().enumerate() {
            for (lease_id, expires_at) in server.state.stored_leases() {
                let Some((attempt, process)) = self.leases.by_lease_id.get(lease_id).copied() else {
                    continue;
                };
                let Some(over_at) = self.leases.over_at.get(&attempt).copied() else { continue };
                let due = over_at
                    .max(micros(self.schedule.faults_end_between(process, node)))
                    .saturating_add(SETTLE_INTERVAL);
                let expires_at = server.clock.global(micros(expires_at.since_epoch()));
                if expires_at.is_some_and(|expires_at| expires_at > due) && !self.may_outlive(process, node) {
                    residue.push((attempt, process, node));
                }
            }
        }
        residue
    }

    /// Whether a key of the process on the node may outlive its attempt, by up to one ttl. There are four
    /// reasons:
    ///
    /// * **The process was killed:** no unlock is sent.
    /// * **The schedule repeats requests:** the duplicate may arrive after the unlock.
    /// * **The node forgets tombstones:** a late request is not refused.
    /// * **Faults may delay a request by the longest ttl or more:** the client stops sending the unlock
    ///   earlier.
    fn may_outlive(&self, process: usize, node: usize) -> bool {
        let delivered_for = self.connections.iter().map(|connection| connection.parameters.max_ttl).min();
        self.is_killed(process)
            || self.schedule.repeats_requests(process, node)
            || self.schedule.forgets_tombstones(node)
            || delivered_for
                .is_some_and(|delivered_for| self.schedule.longest_delay(process, node) >= delivered_for)
    }
}

/// The time in which clients delete leftover keys, in microseconds. In this time, a client replaces a silent
/// connection and sends pending unlocks again.
const SETTLE_INTERVAL: u64 = 10_000_000;

/// The number of checks after which the run ends even if messages are in flight.
const MAX_SETTLE_CHECKS: u32 = 20;
