//! Nodes that break a rule. A test of the rule must fail on these nodes.
//!
//! The code of the rules does not contain the mutations. This module changes an operation or its outcome, as if the
//! node had broken one rule. Each rule is a row of [`RULES`]; operations that the rule does not concern are executed
//! unchanged.

use std::{collections::BTreeMap, mem};

use Mutation as M;

use crate::{
    mutation::Mutation,
    node::{
        names,
        operation::{
            Abstention, Answer, Enqueue, Lock, Operation, Proclaim, Renew, Resources, Transfer, Unlock,
            WriteBack,
        },
        parameters::QuorumParameters,
        state::{
            HeldKey, LARGEST_COUNTER, NodeMetadata, NodeState, NodeTime, ReaderRun, Subscribers,
            counters::{Counters, start},
            renew::proves_token,
        },
    },
    values::{LeaseId, Resource},
};

/// The execution of one operation by all rules except one.
type BrokenNodeRule = fn(&mut BrokenNode<'_, '_>) -> Result<Answer, Answer>;

/// Every rule of a node that can be broken, with the broken behaviour.
const RULES: &[(Mutation, BrokenNodeRule)] = &[
    (M::WriteBackUnconditionally, |node| node.write_back_if(|_, _| Ok(true))),
    (M::WriteBackWithoutOwner, |node| {
        node.write_back_if(|node, WriteBack { resources, token, .. }| {
            let counters = node.state.counters(resources, node.now)?;
            let minimum_token = node.state.minimum_token()?;
            Ok(counters.largest_or_start(node.now).max(minimum_token) <= *token)
        })
    }),
    (M::WriteBackAboveToken, |node| {
        node.write_back_if(|node, WriteBack { resources, lease_id, token }| {
            let is_all_ours = node.state.look_up(resources, lease_id, node.now).is_all_ours;
            Ok(is_all_ours && node.state.minimum_token()? <= *token)
        })
    }),
    (M::WriteBackBelowMinimum, |node| match node.operation {
        Operation::WriteBack(_) => node.without_minimum_token(),
        _ => node.execute(),
    }),
    (M::HealOnlyBelowToken, |node| node.heal_only_below_token()),
    (M::VerifyAboveToken, |node| node.prove_if(|_| false, |counters, _| !counters.is_any_missing())),
    (M::VerifyWithoutCounter, |node| {
        node.restore_counters(|node| node.prove_if(|_| false, |counters, token| counters.largest <= token))
    }),
    (M::CountInQuarantine, |node| {
        node.prove_if(|abstention| matches!(abstention, Abstention::Quarantined(_)), all_prove_token)
    }),
    (M::CountWithoutMetadata, |node| {
        node.prove_if(|abstention| abstention == Abstention::NotRegistered, all_prove_token)
    }),
    (M::HoldsAsIncrements, |node| node.take_one_hold()),
    (M::VoteBelowMinimum, |node| match node.operation {
        Operation::Lock(_) | Operation::Enqueue(_) | Operation::Renew(_) => node.without_minimum_token(),
        _ => node.execute(),
    }),
    (M::TakeOverVoter, |node| node.take_over_voter()),
    (M::IgnoreForeignRenewal, |node| {
        let is_new = node.state.is_new;
        let answer = node.execute();
        if matches!((node.operation, &answer), (Operation::Renew(_), Err(Answer::WrongQuorum { .. }))) {
            node.state.is_new = is_new;
        }
        answer
    }),
    (M::NewAfterGiveUp, |node| {
        let answer = node.execute();
        if let Operation::Reconfigure(reconfigure) = node.operation
            && matches!(answer, Ok(Answer::Registered(_)))
            && reconfigure.from.is_closed_from(&reconfigure.to)
        {
            node.state.is_new = Some(true);
        }
        answer
    }),
    (M::JoinWithoutQuarantine, |node| {
        let answer = node.execute();
        if matches!(node.operation, Operation::Reconfigure(reconfigure) if reconfigure.begins_quarantine()) {
            node.state.quarantine = None;
        }
        answer
    }),
    (M::ShortenTtl, |node| node.shorten_ttl()),
    (M::UnlockWithoutOwner, |node| node.unlock_without_owner()),
    (M::RestExtends, |node| {
        let answer = node.execute()?;
        if let Operation::Unlock(Unlock { resources, lease_id, rest: Some(rest), .. }) = node.operation {
            node.end_at(resources, lease_id, node.now + *rest);
        }
        Ok(answer)
    }),
    (M::RedeemWithoutCounter, |node| match node.operation {
        Operation::Transfer(transfer @ Transfer { proof: Some(_), .. }) => {
            let proof = Some(LARGEST_COUNTER);
            node.execute_instead(&Operation::Transfer(Transfer { proof, ..transfer.clone() }))
        }
        _ => node.execute(),
    }),
    (M::ProclaimWithoutLock, |node| node.proclaim_without_lock()),
    // Wait queues and marks.
    (M::IgnoreYieldMark, |node| {
        if let Operation::Lock(lock) = node.operation {
            node.state.yield_marks.retain(|resource, _| !lock.resources.contains(resource));
            node.state.writer_marks.clear();
        }
        node.execute()
    }),
    (M::IgnoreWriterMark, |node| {
        if let Operation::Lock(_) | Operation::Enqueue(_) = node.operation {
            node.state.writer_marks.clear();
        }
        node.execute()
    }),
    (M::NoMarkRenewal, |node| {
        let marks = node.state.yield_marks.clone();
        let answer = node.execute();
        if let Operation::Renew(_) = node.operation {
            node.state.yield_marks = marks;
        }
        answer
    }),
    (M::GrantOutOfTurn, |node| node.grant_out_of_turn()),
    (M::NoWakeAfterRollback, |node| node.leave_without_wake()),
    (M::NoWake, |node| node.without_notices(names::is_of_waiter)),
    (M::NoReaderWake, |node| node.share_without_wake()),
    // Readers.
    (M::FirstReaderRepeats, |node| {
        node.for_each_shared(|node, before, name, answer| match answer {
            Answer::Granted { vote } if before.readers(name, node.now).is_none() => {
                let vote = vote.saturating_sub(1);
                node.state.store_counter(node.parameters, name, vote, node.now);
                node.change_readers(name, |readers| (readers.phase, readers.epoch) = (vote, vote));
                Answer::Granted { vote }
            }
            answer => answer,
        })
    }),
    (M::WriteBackOfNoReader, |node| node.write_back_shared_if(|phase, _, token| phase <= token)),
    (M::WriteBackBelowPhase, |node| node.write_back_shared_if(|_, is_reader, _| is_reader)),
    (M::ReadersWriteNothingBack, |node| {
        let before = node.state.clone();
        let answer = node.execute()?;
        if matches!(node.operation, Operation::WriteBack(write_back) if write_back.resources.is_any_shared())
        {
            *node.state = before;
        }
        Ok(answer)
    }),
    (M::RenewAsWriter, |node| {
        let Operation::Renew(renew) = node.operation else { return node.execute() };
        let resources = renew.resources.clone().exclusive();
        node.execute_instead(&Operation::Renew(Renew { resources, ..renew.clone() }))
    }),
    (M::OneEndForReaders, |node| {
        node.for_each_unlocked(|node, before, name, lease_id| {
            let end = before.readers(name, node.now).and_then(|readers| readers.ends.get(lease_id)).copied();
            if let Some((end, held)) = end.zip(node.state.held(name, node.now).cloned()) {
                node.state.set_lock(name, Some(HeldKey { expires_at: end, ..held }));
                node.change_readers(name, |readers| readers.expires_at = end);
            }
        })
    }),
    (M::UnshareAnyKey, |node| node.for_each_unlocked(|node, _, name, _| node.state.set_lock(name, None))),
    (M::UnshareForAll, |node| {
        node.for_each_unlocked(|node, _, name, _| {
            if node.state.readers(name, node.now).is_some() {
                node.state.set_lock(name, None);
            }
        })
    }),
    (M::StalePhase, |node| {
        node.for_each_shared(|node, before, name, answer| node.keep_phase(before, name, answer))
    }),
    // Latches and semaphores.
    (M::CountArrivals, |node| node.count_arrivals()),
    (M::CountPermits, |node| node.count_permits()),
];

/// A node with one operation to execute.
struct BrokenNode<'a, 's> {
    state: &'a mut NodeState,
    parameters: &'a QuorumParameters,
    operation: &'a Operation,
    now: NodeTime,
    subscribers: &'a mut Subscribers<'s>,
}

impl NodeState {
    /// Executes one operation by all rules except this one.
    pub(super) fn execute_broken(
        &mut self,
        rule: Mutation,
        parameters: &QuorumParameters,
        operation: &Operation,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        let mut node = BrokenNode { state: self, parameters, operation, now, subscribers };
        match RULES.iter().find(|(broken, _)| *broken == rule) {
            Some((_, execute)) => execute(&mut node),
            None => node.execute(),
        }
    }
}

impl BrokenNode<'_, '_> {
    fn execute(&mut self) -> Result<Answer, Answer> {
        self.execute_instead(self.operation)
    }

    fn execute_instead(&mut self, operation: &Operation) -> Result<Answer, Answer> {
        self.state.execute(self.parameters, operation, self.now, self.subscribers)
    }

    /// Whether the node would renew the lease.
    fn would_renew(&self) -> Result<bool, Answer> {
        let (mut state, mut subscribers) = (self.state.clone(), Subscribers::new(&|_| Some(1)));
        let answer = state.execute(self.parameters, self.operation, self.now, &mut subscribers)?;
        Ok(is_renewed(&answer))
    }

    /// Executes a write-back that the node refuses, if the broken rule allows it.
    fn write_back_if(
        &mut self,
        may_write: fn(&Self, &WriteBack) -> Result<bool, Answer>,
    ) -> Result<Answer, Answer> {
        let answer = self.execute()?;
        let Operation::WriteBack(write_back) = self.operation else { return Ok(answer) };
        if !(may_write(self, write_back)? && matches!(answer, Answer::NotWrittenBack { .. })) {
            return Ok(answer);
        }
        for resource in write_back.resources.iter() {
            self.state.store_counter(self.parameters, resource, write_back.token, self.now);
        }
        Ok(Answer::WrittenBack)
    }

    fn heal_only_below_token(&mut self) -> Result<Answer, Answer> {
        let Operation::Renew(Renew { resources, lease_id, token, .. }) = self.operation else {
            return self.execute();
        };
        let would_renew = self.would_renew()?;
        let lookup = self.state.look_up(resources, lease_id, self.now);
        let largest = self.state.counters(resources, self.now)?.largest;
        if would_renew && !lookup.is_all_ours && largest > *token {
            return Ok(Answer::NotWrittenBack { counter: largest });
        }
        self.execute()
    }

    /// Renews. Under the broken rule, `is_provable` decides by the earlier counters whether the renewal proves the
    /// token, and `is_counted` decides whether a renewal counts in spite of an abstention.
    fn prove_if(
        &mut self,
        is_counted: fn(Abstention) -> bool,
        is_provable: fn(&Counters, u64) -> bool,
    ) -> Result<Answer, Answer> {
        let Operation::Renew(Renew { resources, token, .. }) = self.operation else {
            return self.execute();
        };
        let counters = self.state.counters(resources, self.now)?;
        let answer = self.execute()?;
        match answer.without_waiters() {
            Answer::Renewed { .. } => {}
            Answer::RenewedInQuarantine(abstention) if is_counted(*abstention) => {}
            _ => return Ok(answer),
        }
        let proves = is_provable(&counters, *token) && self.state.minimum_token()? <= *token;
        Ok(Answer::Renewed { proves }.with_waiters(self.state.is_any_queued(resources, self.now)))
    }

    /// Writes forgotten counters of the renewed resources again.
    fn restore_counters(&mut self, renew: fn(&mut Self) -> Result<Answer, Answer>) -> Result<Answer, Answer> {
        let Operation::Renew(Renew { resources, token, .. }) = self.operation else {
            return self.execute();
        };
        let before = self.state.counters(resources, self.now)?;
        let answer = renew(self)?;
        for (resource, _) in resources.iter().zip(&before.found).filter(|(_, found)| found.is_none()) {
            if is_renewed(&answer) {
                let counter = start(self.now).max(*token);
                self.state.store_counter(self.parameters, resource, counter, self.now);
            }
        }
        Ok(answer)
    }

    /// Answers a renewal without holds as usual, and removes one hold.
    fn take_one_hold(&mut self) -> Result<Answer, Answer> {
        let Operation::Renew(renew @ Renew { holds: 0, .. }) = self.operation else {
            return self.execute();
        };
        if !self.would_renew()? {
            return self.execute();
        }
        let answer =
            self.state.clone().execute(self.parameters, self.operation, self.now, self.subscribers)?;
        for resource in renew.resources.iter() {
            let stored = self.state.held(resource, self.now).filter(|held| held.holds > 1).cloned();
            let left = stored.map(|held| HeldKey { holds: held.holds - 1, ..held });
            self.state.set_lock(resource, left);
        }
        Ok(answer)
    }

    /// Executes the operation as if the node had no minimum token.
    fn without_minimum_token(&mut self) -> Result<Answer, Answer> {
        let metadata = self.state.metadata.clone();
        if let Some(metadata) = &mut self.state.metadata {
            metadata.minimum_token = 0;
        }
        let result = self.execute();
        self.state.metadata = metadata;
        result
    }

    /// Admits a node of another configuration as if the node were empty.
    fn take_over_voter(&mut self) -> Result<Answer, Answer> {
        let is_of_another = |metadata: &NodeMetadata| metadata.fingerprint != self.parameters.fingerprint;
        if let Operation::Init(_) = self.operation
            && self.state.metadata().is_some_and(is_of_another)
        {
            (self.state.metadata, self.state.is_new) = (None, None);
        }
        self.execute()
    }

    fn shorten_ttl(&mut self) -> Result<Answer, Answer> {
        let answer = self.execute()?;
        let (Operation::Lock(Lock { resources, lease_id, ttl, .. })
        | Operation::Enqueue(Enqueue { lock: Lock { resources, lease_id, ttl, .. }, .. })
        | Operation::Renew(Renew { resources, lease_id, ttl, .. })) = self.operation
        else {
            return Ok(answer);
        };
        if matches!(answer.without_waiters(), Answer::Granted { .. }) || is_renewed(&answer) {
            self.end_at(resources, lease_id, self.now + *ttl);
        }
        Ok(answer)
    }

    fn end_at(&mut self, resources: &Resources, lease_id: &LeaseId, expires_at: NodeTime) {
        for resource in resources.iter() {
            let held = self.state.held(resource, self.now).filter(|held| held.lease_id == *lease_id);
            if let Some(held) = held.map(|held| HeldKey { expires_at, ..held.clone() }) {
                self.state.set_lock(resource, Some(held));
            }
        }
    }

    fn unlock_without_owner(&mut self) -> Result<Answer, Answer> {
        let Operation::Unlock(unlock) = self.operation else { return self.execute() };
        for resource in unlock.resources.iter() {
            let lease_id = unlock.lease_id.clone();
            let held = self.state.held(resource, self.now).map(|held| HeldKey { lease_id, ..held.clone() });
            self.state.set_lock(resource, held);
        }
        self.execute()
    }

    fn proclaim_without_lock(&mut self) -> Result<Answer, Answer> {
        let Operation::Proclaim(Proclaim { resource, proclamation, .. }) = self.operation else {
            return self.execute();
        };
        let held = self.state.locks.get(resource).cloned();
        let expires_at = self.now + self.parameters.max_ttl;
        let leader = HeldKey { lease_id: proclamation.lease_id.clone(), holds: 1, expires_at };
        self.state.set_lock(resource, Some(leader));
        let result = self.execute();
        self.state.set_lock(resource, held);
        result
    }

    fn grant_out_of_turn(&mut self) -> Result<Answer, Answer> {
        let Operation::Enqueue(Enqueue { lock, enqueue_only: false, .. }) = self.operation else {
            return self.execute();
        };
        let Lock { resources, lease_id, .. } = lock;
        let is_refused = self.state.has_tombstone(resources, lease_id, self.now);
        if is_refused || self.state.look_up(resources, lease_id, self.now).other.is_some() {
            return self.execute();
        }
        self.state.ensure_may_vote(self.parameters, self.now)?;
        let answer = self.state.grant(self.parameters, lock, self.now)?;
        Ok(answer.with_waiters(self.state.is_any_queued(resources, self.now)))
    }

    /// Withdraws and rolls back without waking the next waiter.
    fn leave_without_wake(&mut self) -> Result<Answer, Answer> {
        match self.operation {
            Operation::Withdraw(withdraw) => {
                self.state.leave_queue(&withdraw.resource, &withdraw.waiter, self.now, self.subscribers);
                Ok(Answer::Withdrawn)
            }
            Operation::Unlock(Unlock { resources, notify: false, .. }) => {
                let (hidden, seen) = mem::take(&mut self.state.wait_queues)
                    .into_iter()
                    .partition::<BTreeMap<_, _>, _>(|(resource, _)| resources.contains(resource));
                self.state.wait_queues = seen;
                let answer = self.execute();
                self.state.wait_queues.extend(hidden);
                answer.map(|answer| answer.with_waiters(self.state.is_any_queued(resources, self.now)))
            }
            _ => self.execute(),
        }
    }

    /// Executes the operation, and drops its notices on some topics.
    fn without_notices(&mut self, is_dropped: impl Fn(&Resource) -> bool) -> Result<Answer, Answer> {
        let sent = self.subscribers.notices.len();
        let result = self.execute();
        let new = self.subscribers.notices.split_off(sent);
        self.subscribers.notices.extend(new.into_iter().filter(|topic| !is_dropped(topic)));
        result
    }

    /// Grants a woken reader without waking the next waiter.
    fn share_without_wake(&mut self) -> Result<Answer, Answer> {
        let Operation::Enqueue(enqueue) = self.operation else { return self.execute() };
        let sent = self.subscribers.notices.len();
        let answer = self.execute()?;
        let index = enqueue.resource;
        if let Some(resource) = enqueue.lock.resources.get(index)
            && enqueue.lock.resources.is_shared(index)
            && matches!(answer.without_waiters(), Answer::Granted { .. })
            && let Some(queue) = self.state.wait_queues.get_mut(resource)
            && let Some((woken, _)) = queue.woken.take()
        {
            let topic_of_woken = names::wake(resource, &woken);
            let mut new = self.subscribers.notices.split_off(sent);
            new.retain(|topic| *topic != topic_of_woken);
            self.subscribers.notices.append(&mut new);
        }
        Ok(answer)
    }

    /// Executes the operation, and changes the outcome for each shared resource.
    fn for_each_shared(
        &mut self,
        change: impl Fn(&mut Self, &NodeState, &Resource, Answer) -> Answer,
    ) -> Result<Answer, Answer> {
        let before = self.state.clone();
        let mut answer = self.execute()?;
        let (Operation::Lock(Lock { resources, .. })
        | Operation::Enqueue(Enqueue { lock: Lock { resources, .. }, .. })
        | Operation::WriteBack(WriteBack { resources, .. })
        | Operation::Renew(Renew { resources, .. })
        | Operation::Unlock(Unlock { resources, .. })) = self.operation
        else {
            return Ok(answer);
        };
        for (name, _) in resources.each().filter(|(_, is_shared)| *is_shared) {
            answer = change(self, &before, name, answer);
        }
        Ok(answer)
    }

    /// Unlocks, and then changes the state for each resource that the lease shared.
    fn for_each_unlocked(
        &mut self,
        change: fn(&mut Self, &NodeState, &Resource, &LeaseId),
    ) -> Result<Answer, Answer> {
        self.for_each_shared(|node, before, name, answer| {
            if let Operation::Unlock(Unlock { lease_id, .. }) = node.operation {
                change(node, before, name, lease_id);
            }
            answer
        })
    }

    /// Executes a write-back of a reader that the node refuses, if the broken rule allows it. The arguments of
    /// `may_write` are the phase, whether the lease is a reader, and the token.
    fn write_back_shared_if(&mut self, may_write: fn(u64, bool, u64) -> bool) -> Result<Answer, Answer> {
        self.for_each_shared(|node, _, name, answer| {
            let (Operation::WriteBack(WriteBack { lease_id, token, .. }), Answer::NotWrittenBack { .. }) =
                (node.operation, &answer)
            else {
                return answer;
            };
            let (state, now) = (&mut *node.state, node.now);
            let phase = state.readers(name, now).map_or_else(|| start(now), |readers| readers.phase);
            let is_above_minimum = state.minimum_token().is_ok_and(|minimum_token| minimum_token <= *token);
            if !is_above_minimum || !may_write(phase, state.is_reader(name, lease_id, now), *token) {
                return answer;
            }
            let counter = state.counter(name, now).map_or(0, |counter| counter.value);
            state.raise(name, *token, now);
            state.store_counter(node.parameters, name, counter.max(*token), now);
            Answer::WrittenBack
        })
    }

    /// Keeps the record of the readers when the last reader unlocks, so that the next reader begins no new phase.
    fn keep_phase(&mut self, before: &NodeState, name: &Resource, answer: Answer) -> Answer {
        if matches!(self.operation, Operation::Unlock(_)) && !self.state.readers.contains_key(name) {
            let left =
                before.readers.get(name).map(|left| ReaderRun { ends: BTreeMap::new(), ..left.clone() });
            self.state.readers.extend(left.map(|left| (name.clone(), left)));
        } else if before.readers(name, self.now).is_none() {
            let left = before.readers.get(name).map(|left| left.phase);
            self.change_readers(name, |readers| readers.phase = left.unwrap_or(readers.phase));
        }
        answer
    }

    fn change_readers(&mut self, resource: &Resource, change: impl FnOnce(&mut ReaderRun)) {
        self.state.readers.get_mut(resource).map(change);
    }

    /// Counts each call as an arrival.
    fn count_arrivals(&mut self) -> Result<Answer, Answer> {
        let Operation::Latch(latch) = self.operation else { return self.execute() };
        if latch.arrivals.is_empty() {
            return self.execute();
        }
        let mut counted = latch.clone();
        let number = self.state.latches.get(&latch.latch).map_or(0, |record| record.arrivals.len());
        counted.arrivals.insert(format!("call {number}").as_bytes().into());
        self.execute_instead(&Operation::Latch(counted))
    }

    /// Grants any other slot in place of a held slot.
    fn count_permits(&mut self) -> Result<Answer, Answer> {
        let answer = self.execute();
        let (Operation::Lock(lock), Ok(Answer::Held(_)) | Err(Answer::Held(_))) = (self.operation, &answer)
        else {
            return answer;
        };
        let slots = lock.resources.iter().flat_map(|slot| (0..2).map(|other| names::sibling(slot, other)));
        let free = slots.filter(|slot| self.state.held(slot, self.now).is_none()).take(1).collect::<Vec<_>>();
        let counted = Lock { resources: free.into_iter().collect(), ..lock.clone() };
        if counted.resources.is_empty() {
            return answer;
        }
        self.execute_instead(&Operation::Lock(counted))
    }
}

/// Whether the node renewed the lease, with or without a vote.
fn is_renewed(answer: &Answer) -> bool {
    matches!(answer.without_waiters(), Answer::Renewed { .. } | Answer::RenewedInQuarantine(_))
}

/// Whether each counter shows that the node gave no vote above the token.
fn all_prove_token(counters: &Counters, token: u64) -> bool {
    counters.found.iter().all(|found| proves_token(*found, token))
}
