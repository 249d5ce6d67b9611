//! Recording what becomes of attempts and leases, in global time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

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

/// Records everything that the locks of one process do.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) world: World,
    pub(crate) process: usize,
}

/// Attempts, and the leases that are not over.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    next_attempt: u64,
    by_owner: BTreeMap<LeaseId, (u64, usize)>,
    active: BTreeMap<u64, (usize, Arc<dyn ObservedLease>)>,
    /// When each attempt was lost, or its lease ended.
    over_at: BTreeMap<u64, u64>,
    /// How often it was looked whether all that was left has gone away.
    settle_checks: u32,
}

impl Monitor for Recorder {}

impl Observer for Recorder {
    fn attempt_began(&self, resources: &Resources, owner: &LeaseId) -> u64 {
        let mut state = self.world.lock();
        let number = state.leases.next_attempt;
        state.leases.next_attempt += 1;
        state.leases.by_owner.insert(owner.clone(), (number, self.process));
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
        state.note(self.process, history::Event::Lost { attempt: AttemptId::new(attempt) });
    }

    fn lease_granted(&self, lease: &Arc<dyn ObservedLease>) {
        let mut state = self.world.lock();
        let attempt = AttemptId::new(lease.attempt());
        state.note(self.process, history::Event::Granted { attempt, token: lease.token() });
        state.leases.active.insert(lease.attempt(), (self.process, Arc::clone(lease)));
        state.check_lease(lease.attempt());
        // To grant is to say that the lease is valid now.
        state.note(self.process, history::Event::Looked { attempt, is_valid: true });
    }

    fn lease_ended(&self, lease: &dyn ObservedLease, end: LeaseEnd, _: Duration) {
        let is_unlocked = !matches!(end, LeaseEnd::Lost(_));
        self.world.lock().end_lease(lease.attempt(), is_unlocked);
    }
}

impl WorldState {
    /// Notes the end of a lease if its validity is over by its process's clock; otherwise settle_checks
    /// again then.
    pub(super) fn check_lease(&mut self, attempt: u64) {
        let Some((process, lease)) = self.leases.active.get(&attempt) else { return };
        let (process, valid_until) = (*process, lease.valid_until());
        if Instant::from_origin(Duration::from_micros(self.local(process))) >= valid_until {
            return self.end_lease(attempt, false);
        }
        let Some(process) = self.processes.get(process) else { return };
        // While the clock stands still, there is no such time.
        if let Some(at) = process.clock.global(micros(valid_until.since_origin())) {
            self.at(at, WorldEvent::Validity(attempt));
        }
    }

    /// After a process's clock stood still.
    pub(super) fn check_leases_of(&mut self, process: usize) {
        let of_process = self.leases.active.iter().filter(|(_, (of, _))| *of == process);
        let attempts: Vec<u64> = of_process.map(|(attempt, _)| *attempt).collect();
        attempts.into_iter().for_each(|attempt| self.check_lease(attempt));
    }

    /// A killed process does nothing any more, under whatever lease.
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

    /// Notes that a holder was told of its loss. One that stood still when the lease ended cannot
    /// be told before it goes on, and is told in time if it is told then.
    pub(crate) fn announce(&mut self, process: usize, attempt: AttemptId) {
        let ended_at = self.leases.over_at.get(&attempt.as_u64()).copied();
        let resumed_at = ended_at.and_then(|ended_at| self.resumed_after(process, ended_at));
        if resumed_at != Some(self.now()) {
            self.note(process, history::Event::Announced { attempt });
        }
    }

    /// All programs are done: what they leave behind gets its time.
    pub(super) fn wind_down(&mut self) {
        let now = self.now();
        let calm = micros(self.schedule.calm_from());
        self.at(now.max(calm).saturating_add(SETTLE_INTERVAL), WorldEvent::Settle);
    }

    /// Ends the run once nothing is under way, and notes whatever outlived its attempt.
    pub(super) fn settle(&mut self) {
        self.leases.settle_checks += 1;
        if self.network.in_flight > 0 && self.leases.settle_checks < MAX_SETTLE_CHECKS {
            let now = self.now();
            self.at(now + SETTLE_INTERVAL, WorldEvent::Settle);
            return;
        }
        for (attempt, process, node) in self.residue() {
            self.note(process, history::Event::Left { attempt: AttemptId::new(attempt), node });
        }
        self.finish(End::Done);
    }

    /// Keys whose ttl ends, or ended, long after their attempt was over, when nothing stood between
    /// process and node any more. A node keeps what is over until somebody else takes the resource,
    /// so this finds keys of long ago, too.
    fn residue(&self) -> Vec<(u64, usize, usize)> {
        let mut residue = Vec::new();
        for (node, server) in self.servers.iter().enumerate() {
            for (owner, expires_at) in server.state.keys_and_relics() {
                let Some((attempt, process)) = self.leases.by_owner.get(owner).copied() else {
                    continue;
                };
                let Some(over_at) = self.leases.over_at.get(&attempt).copied() else { continue };
                let due = over_at
                    .max(micros(self.schedule.calm_between(process, node)))
                    .saturating_add(SETTLE_INTERVAL);
                let expires_at = server.clock.global(micros(expires_at.since_epoch()));
                if expires_at.is_some_and(|expires_at| expires_at > due) && !self.may_outlive(process, node) {
                    residue.push((attempt, process, node));
                }
            }
        }
        residue
    }

    /// Whether a key may outlive its attempt, for one ttl: a killed process unlocks nothing, a
    /// request that comes a second time may come after the unlock, a node that forgets also forgets
    /// whose late requests to refuse, and what comes to a node later than the longest ttl comes
    /// when its unlock need not be delivered any more.
    fn may_outlive(&self, process: usize, node: usize) -> bool {
        let delivered_for = self.connections.iter().map(|connection| connection.parameters.max_ttl).min();
        self.is_killed(process)
            || self.schedule.repeats_requests(process, node)
            || self.schedule.forgets_tombstones(node)
            || delivered_for
                .is_some_and(|delivered_for| self.schedule.longest_delay(process, node) >= delivered_for)
    }
}

/// How long, in microseconds, keys have to go away: a silent connection is redialled, and what
/// must be delivered is sent again.
const SETTLE_INTERVAL: u64 = 10_000_000;

/// How often it is looked at most whether messages are still under way.
const MAX_SETTLE_CHECKS: u32 = 20;
