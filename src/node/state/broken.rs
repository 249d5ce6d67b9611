//! A node that breaks a rule: what tests run on that have to fail then.
//!
//! The rules themselves know nothing of it. Here an operation, or what came of it, is changed as if
//! the node had not kept the one rule.

mod sharing;

use std::{collections::BTreeMap, mem};

use crate::{
    mutation::Mutation,
    node::{
        names,
        operation::{
            Abstention, Answer, Enqueue, Lock, Operation, Proclaim, Renew, Resources, Unlock, WriteBack,
        },
        parameters::QuorumParameters,
        state::{HeldKey, NodeState, NodeTime, Subscribers, counters::start, renew::is_below},
    },
    values::LeaseId,
};

impl NodeState {
    /// Executes one operation by all rules but this one.
    pub(super) fn execute_broken(
        &mut self,
        rule: Mutation,
        parameters: &QuorumParameters,
        operation: &Operation,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        use Mutation as M;
        match (rule, operation) {
            (
                M::WriteBackUnconditionally | M::WriteBackWithoutOwner | M::WriteBackAboveToken,
                Operation::WriteBack(write_back),
            ) => {
                let answer = self.execute(parameters, operation, now, subscribers)?;
                self.write_back_broken(rule, parameters, write_back, now, answer)
            }
            (
                M::VerifyAboveToken | M::VerifyForgetful | M::CountInQuarantine | M::CountWithoutMetadata,
                Operation::Renew(renew),
            ) => self.renew_broken(rule, parameters, renew, now, subscribers),
            (M::HealOnlyBelowToken, Operation::Renew(renew)) => {
                let Renew { resources, owner, token, .. } = renew;
                let would_keep = self.would_keep(parameters, operation, now)?;
                let (lookup, counters) =
                    (self.look_up(resources, owner, now), self.counters(resources, now)?);
                if would_keep && !lookup.is_all_ours && counters.largest > *token {
                    return Ok(Answer::NotWrittenBack { counter: counters.largest });
                }
                self.execute(parameters, operation, now, subscribers)
            }
            (M::HoldsAsIncrements, Operation::Renew(renew)) if renew.holds == 0 => {
                // What it would say, and one hold less, whatever is left.
                if !self.would_keep(parameters, operation, now)? {
                    return self.execute(parameters, operation, now, subscribers);
                }
                let answer = self.clone().execute(parameters, operation, now, subscribers)?;
                for resource in renew.resources.iter() {
                    let stored = self.held(resource, now).filter(|held| held.holds > 1).cloned();
                    self.set_lock(resource, stored.map(|held| HeldKey { holds: held.holds - 1, ..held }));
                }
                Ok(answer)
            }
            (M::VoteBelowMinimum, Operation::Lock(_) | Operation::Enqueue(_) | Operation::Renew(_)) => {
                let metadata = self.metadata.clone();
                if let Some(metadata) = &mut self.metadata {
                    metadata.minimum_token = 0;
                }
                let result = self.execute(parameters, operation, now, subscribers);
                self.metadata = metadata;
                result
            }
            (
                M::ShortenTtl,
                Operation::Lock(Lock { resources, owner, ttl, .. })
                | Operation::Enqueue(Enqueue { lock: Lock { resources, owner, ttl, .. }, .. })
                | Operation::Renew(Renew { resources, owner, ttl, .. }),
            ) => {
                let answer = self.execute(parameters, operation, now, subscribers)?;
                if matches!(answer.told(), Answer::Granted { .. }) || is_kept(&answer) {
                    self.end_at(resources, owner, now + *ttl, now);
                }
                Ok(answer)
            }
            (M::LetNobodyFirst, Operation::Lock(lock)) => {
                self.marks.retain(|resource, _| !lock.resources.contains(resource));
                self.turn_marks.clear();
                self.execute(parameters, operation, now, subscribers)
            }
            (M::GrantOutOfTurn, Operation::Enqueue(enqueue)) if !enqueue.only_waits => {
                let Lock { resources, owner, .. } = &enqueue.lock;
                let is_refused = self.is_gone(resources, owner, now);
                if is_refused || self.look_up(resources, owner, now).other.is_some() {
                    return self.execute(parameters, operation, now, subscribers);
                }
                self.may_vote(parameters, now)?;
                let answer = self.grant(parameters, &enqueue.lock, now)?;
                Ok(answer.awaited(self.is_any_queued(resources, now)))
            }
            (M::UnlockWithoutOwner, Operation::Unlock(unlock)) => {
                for resource in unlock.resources.iter() {
                    let owner = unlock.owner.clone();
                    let held = self.held(resource, now).map(|held| HeldKey { owner, ..held.clone() });
                    self.set_lock(resource, held);
                }
                self.execute(parameters, operation, now, subscribers)
            }
            (M::KeepTheTurn, Operation::Withdraw(withdraw)) => {
                self.leave_queue(&withdraw.resource, &withdraw.waiter, now, subscribers);
                Ok(Answer::Withdrawn)
            }
            (M::KeepTheTurn, Operation::Unlock(Unlock { resources, notify: false, .. })) => {
                let (hidden, seen) = mem::take(&mut self.wait_queues)
                    .into_iter()
                    .partition::<BTreeMap<_, _>, _>(|(resource, _)| resources.contains(resource));
                self.wait_queues = seen;
                let answer = self.execute(parameters, operation, now, subscribers);
                self.wait_queues.extend(hidden);
                answer.map(|answer| answer.awaited(self.is_any_queued(resources, now)))
            }
            (M::WakeNobody, _) => {
                let told = subscribers.notices.len();
                let result = self.execute(parameters, operation, now, subscribers);
                let later = subscribers.notices.split_off(told);
                subscribers.notices.extend(later.into_iter().filter(|topic| !names::is_of_waiter(topic)));
                result
            }
            (M::ProclaimWithoutLock, Operation::Proclaim(Proclaim { resource, said, .. })) => {
                let held = self.locks.get(resource).cloned();
                let expires_at = now + parameters.max_ttl;
                self.set_lock(resource, Some(HeldKey { owner: said.owner.clone(), holds: 1, expires_at }));
                let result = self.execute(parameters, operation, now, subscribers);
                self.set_lock(resource, held);
                result
            }
            (M::ReadersWriteNothingBack, Operation::WriteBack(write_back)) => {
                let before = self.clone();
                let answer = self.execute(parameters, operation, now, subscribers)?;
                if write_back.resources.each().any(|(_, is_shared)| is_shared) {
                    *self = before;
                }
                Ok(answer)
            }
            (M::RenewAsWriter, Operation::Renew(renew)) => {
                let resources = renew.resources.clone().exclusive();
                let operation = Operation::Renew(Renew { resources, ..renew.clone() });
                self.execute(parameters, &operation, now, subscribers)
            }
            (M::WakeNoReader, Operation::Enqueue(enqueue)) => {
                let told = subscribers.notices.len();
                let answer = self.execute(parameters, operation, now, subscribers)?;
                let index = enqueue.resource;
                if let Some(resource) = enqueue.lock.resources.get(index)
                    && enqueue.lock.resources.is_shared(index)
                    && matches!(answer.told(), Answer::Granted { .. })
                    && let Some(queue) = self.wait_queues.get_mut(resource)
                    && let Some((woken, _)) = queue.woken.take()
                {
                    let turn = names::turn(resource, &woken);
                    let mut later = subscribers.notices.split_off(told);
                    later.retain(|topic| *topic != turn);
                    subscribers.notices.append(&mut later);
                }
                Ok(answer)
            }
            (M::CountPermits, Operation::Lock(lock)) => {
                let answer = self.execute(parameters, operation, now, subscribers);
                let (Ok(Answer::Held(_)) | Err(Answer::Held(_))) = answer else { return answer };
                // Any other slot will do.
                let slots =
                    lock.resources.iter().flat_map(|slot| (0..2).map(|other| names::sibling(slot, other)));
                let free = slots.filter(|slot| self.held(slot, now).is_none()).take(1).collect::<Vec<_>>();
                let counted = Lock { resources: free.into_iter().collect(), ..lock.clone() };
                if counted.resources.is_empty() {
                    return answer;
                }
                self.execute(parameters, &Operation::Lock(counted), now, subscribers)
            }
            (M::CountArrivals, Operation::Latch(latch)) if !latch.arrivals.is_empty() => {
                let mut counted = latch.clone();
                let number = self.latches.get(&latch.latch).map_or(0, |record| record.arrivals.len());
                counted.arrivals.insert(format!("call {number}").as_bytes().into());
                self.execute(parameters, &Operation::Latch(counted), now, subscribers)
            }
            (M::PassTheTurn, Operation::Lock(_) | Operation::Enqueue(_)) => {
                self.turn_marks.clear();
                self.execute(parameters, operation, now, subscribers)
            }
            (M::MarkRunsOut, Operation::Renew(_)) => {
                let marks = self.marks.clone();
                let answer = self.execute(parameters, operation, now, subscribers);
                self.marks = marks;
                answer
            }
            (
                M::FirstReaderRepeats
                | M::WriteBackOfNoReader
                | M::WriteBackBelowPhase
                | M::OneEndForReaders
                | M::UnshareAnyKey
                | M::UnshareForAll
                | M::KeepPhase,
                _,
            ) => self.share_broken(rule, parameters, operation, now, subscribers),
            _ => self.execute(parameters, operation, now, subscribers),
        }
    }

    fn write_back_broken(
        &mut self,
        rule: Mutation,
        parameters: &QuorumParameters,
        write_back: &WriteBack,
        now: NodeTime,
        answer: Answer,
    ) -> Result<Answer, Answer> {
        let WriteBack { resources, owner, token } = write_back;
        let may_write = match rule {
            Mutation::WriteBackWithoutOwner => self.counters(resources, now)?.largest_or_start(now) <= *token,
            Mutation::WriteBackAboveToken => self.look_up(resources, owner, now).is_all_ours,
            _ => true,
        };
        if !(may_write && matches!(answer, Answer::NotWrittenBack { .. })) {
            return Ok(answer);
        }
        for resource in resources.iter() {
            self.count(parameters, resource, *token, now);
        }
        Ok(Answer::WrittenBack)
    }

    fn renew_broken(
        &mut self,
        rule: Mutation,
        parameters: &QuorumParameters,
        renew: &Renew,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        let Renew { resources, token, .. } = renew;
        let counters = self.counters(resources, now)?;
        let operation = Operation::Renew(renew.clone());
        let answer = self.execute(parameters, &operation, now, subscribers)?;
        for (resource, _) in resources.iter().zip(&counters.found).filter(|(_, found)| found.is_none()) {
            if rule == Mutation::VerifyForgetful && is_kept(&answer) {
                self.count(parameters, resource, start(now).max(*token), now);
            }
        }
        let is_counted = match answer.told() {
            Answer::Renewed { .. } => true,
            Answer::RenewedInQuarantine(Abstention::Quarantined(_)) => rule == Mutation::CountInQuarantine,
            Answer::RenewedInQuarantine(Abstention::NotRegistered) => rule == Mutation::CountWithoutMetadata,
            _ => false,
        };
        if !is_counted {
            return Ok(answer);
        }
        let is_provable = match rule {
            Mutation::VerifyAboveToken => !counters.is_any_missing(),
            Mutation::VerifyForgetful => counters.largest <= *token,
            _ => counters.found.iter().all(|found| is_below(*found, *token)),
        };
        let proves = is_provable && self.minimum_token()? <= *token;
        Ok(Answer::Renewed { proves }.awaited(self.is_any_queued(resources, now)))
    }

    /// Whether the node would keep what is to be renewed.
    fn would_keep(
        &self,
        parameters: &QuorumParameters,
        operation: &Operation,
        now: NodeTime,
    ) -> Result<bool, Answer> {
        let mut subscribers = Subscribers::new(&|_| 1);
        self.clone().execute(parameters, operation, now, &mut subscribers).map(|answer| is_kept(&answer))
    }

    fn end_at(&mut self, resources: &Resources, owner: &LeaseId, expires_at: NodeTime, now: NodeTime) {
        for resource in resources.iter() {
            let held = self.held(resource, now).filter(|held| held.owner == *owner);
            if let Some(held) = held.map(|held| HeldKey { expires_at, ..held.clone() }) {
                self.set_lock(resource, Some(held));
            }
        }
    }
}

fn is_kept(answer: &Answer) -> bool {
    matches!(answer.told(), Answer::Renewed { .. } | Answer::RenewedInQuarantine(_))
}
