//! Noting what becomes of attempts and leases, in global time.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use super::{State, World, event::Event};
use crate::{
    clock::Instant,
    lock::{held::Held, observer::Observer},
    node::Resources,
    owner_id::OwnerId,
    sim::{
        Verdict,
        budget::forgets_tombstones,
        clock::micros,
        history::{self, Attempt},
        report::End,
    },
};

/// Sees everything that the locks of one client do.
#[derive(Debug)]
pub(crate) struct Witness {
    pub(crate) world: World,
    pub(crate) client: usize,
}

/// Attempts, and the leases that are not over.
#[derive(Debug, Default)]
pub(crate) struct Leases {
    next_attempt: u64,
    by_owner: BTreeMap<OwnerId, (u64, usize)>,
    held: BTreeMap<u64, (usize, Arc<Held>)>,
    ended_at: BTreeMap<u64, u64>,
    /// How often it was looked whether all that was left has gone away.
    looks: u32,
}

impl Observer for Witness {
    fn attempt_began(&self, resources: &Resources, owner: &OwnerId) -> u64 {
        let mut state = self.world.lock();
        let number = state.leases.next_attempt;
        state.leases.next_attempt += 1;
        state.leases.by_owner.insert(owner.clone(), (number, self.client));
        let attempt = Attempt::new(number);
        state.note(self.client, history::Event::Began { attempt, resources: resources.to_vec() });
        number
    }

    fn attempt_lost(&self, attempt: u64) {
        let attempt = Attempt::new(attempt);
        self.world.lock().note(self.client, history::Event::Lost { attempt });
    }

    fn lease_granted(&self, held: &Arc<Held>) {
        let mut state = self.world.lock();
        let attempt = Attempt::new(held.attempt);
        state.note(self.client, history::Event::Granted { attempt, token: held.token });
        state.leases.held.insert(held.attempt, (self.client, Arc::clone(held)));
        state.look_at_lease(held.attempt);
        // To grant is to say that the lease is valid now.
        state.note(self.client, history::Event::Looked { attempt, is_valid: true });
    }

    fn lease_ended(&self, held: &Held, is_unlocked: bool) {
        self.world.lock().end_lease(held.attempt, is_unlocked);
    }
}

impl State {
    /// Notes the end of a lease if its validity is over by its client's clock; otherwise looks again then.
    pub(super) fn look_at_lease(&mut self, attempt: u64) {
        let Some((client, held)) = self.leases.held.get(&attempt) else { return };
        let (client, valid_until) = (*client, held.valid_until());
        if Instant::from_origin(Duration::from_micros(self.local(client))) >= valid_until {
            return self.end_lease(attempt, false);
        }
        let Some(process) = self.processes.get(client) else { return };
        // While the clock stands still, there is no such time.
        if let Some(at) = process.clock.global(micros(valid_until.since_origin())) {
            self.at(at, Event::Validity(attempt));
        }
    }

    /// After a client's clock stood still.
    pub(super) fn look_at_leases_of(&mut self, client: usize) {
        let of_client = self.leases.held.iter().filter(|(_, (of, _))| *of == client);
        let attempts: Vec<u64> = of_client.map(|(attempt, _)| *attempt).collect();
        attempts.into_iter().for_each(|attempt| self.look_at_lease(attempt));
    }

    /// A killed client does nothing any more, under whatever lease.
    pub(super) fn end_leases_of(&mut self, client: usize) {
        let of_client = self.leases.held.iter().filter(|(_, (of, _))| *of == client);
        let attempts: Vec<u64> = of_client.map(|(attempt, _)| *attempt).collect();
        attempts.into_iter().for_each(|attempt| self.end_lease(attempt, false));
    }

    fn end_lease(&mut self, attempt: u64, is_unlocked: bool) {
        if let Some((client, _)) = self.leases.held.remove(&attempt) {
            let now = self.now();
            self.leases.ended_at.insert(attempt, now);
            self.note(client, history::Event::Ended { attempt: Attempt::new(attempt), is_unlocked });
        }
    }

    /// Notes that a holder was told of its loss, unless it stood still when the lease ended and could not be told in time.
    pub(crate) fn announce(&mut self, client: usize, attempt: Attempt) {
        let ended_at = self.leases.ended_at.get(&attempt.as_u64()).copied();
        if ended_at.is_none_or(|ended_at| ended_at > self.resumed_at(client)) {
            self.note(client, history::Event::Announced { attempt });
        }
    }

    /// All programs are done: what they leave behind gets its time.
    pub(super) fn wind_down(&mut self) {
        let now = self.now();
        let calm = micros(self.schedule.calm_from());
        self.at(now.max(calm) + SETTLING, Event::Settle);
    }

    /// Ends the run once nothing is under way, and notes whatever is left. Of a client that was killed, or where requests
    /// came twice, only what is left after the longest ttl.
    pub(super) fn settle(&mut self) {
        let now = self.now();
        self.leases.looks += 1;
        let mut left = Vec::new();
        for (node, server) in self.servers.iter().enumerate() {
            for (_, held) in server.state.all_held(server.time(now)) {
                left.push((node, self.leases.by_owner.get(&held.owner).copied()));
            }
        }
        let may_wait = self.leases.looks < MOST_LOOKS;
        let is_excused = !left.is_empty() && self.excuses_residue();
        if may_wait && (self.network.under_way > 0 || is_excused) {
            self.at(now + SETTLING, Event::Settle);
            return;
        }
        for (node, owner) in left {
            let (attempt, client) = owner.unwrap_or((u64::MAX, 0));
            self.note(client, history::Event::Left { attempt: Attempt::new(attempt), node });
        }
        self.finish(End::Done);
    }

    /// Whether keys may outlive their attempts for one ttl: a killed client unlocks nothing, a request that comes a
    /// second time may come after the unlock, a node that forgets also forgets whose late requests to refuse, and what
    /// comes to a node later than the longest ttl comes when its unlock is owed no more.
    fn excuses_residue(&self) -> bool {
        let owed_for = self.connections.iter().map(|connection| connection.terms.max_ttl).min();
        let repeats = |verdict: Verdict| matches!(verdict, Verdict::Duplicate(_));
        (0..self.schedule.clients).any(|client| self.is_killed(client))
            || self.schedule.messages.iter().any(|message| repeats(message.verdict))
            || self.schedule.faults.iter().any(|timed| forgets_tombstones(&timed.fault))
            || owed_for.is_some_and(|owed_for| self.schedule.longest_delay() >= owed_for)
    }
}

/// How long, in microseconds, until it is looked whether all has gone away: a silent connection is redialled, and what
/// is owed sent again.
const SETTLING: u64 = 10_000_000;

/// How often it is looked at most: until every ttl is over.
const MOST_LOOKS: u32 = 10;
