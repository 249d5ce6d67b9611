//! Lock, write-back, renew: what a node grants.

use std::time::Duration;

use crate::{
    mutation::{self, Mutation},
    node::{
        answer::{Answer, Holder, Queued},
        parameters::QuorumParameters,
        request::{Lock, Renew, WriteBack},
        state::{
            HeldKey, NodeState, NodeTime, Subscribers,
            counters::{LARGEST_COUNTER, moved_by_hint, start, usable, used_up},
        },
    },
    values::{OwnerId, Resource},
};

impl NodeState {
    /// Locks, unless others are queued here or are to be let go first, and it is not this client's
    /// turn.
    pub(super) fn lock(
        &mut self,
        parameters: &QuorumParameters,
        lock: &Lock,
        now: NodeTime,
        subscribers: &mut Subscribers<'_>,
    ) -> Result<Answer, Answer> {
        let Lock { resources, owner, has_turn, .. } = lock;
        let lookup = self.look_up(resources, owner, now);
        if *has_turn || lookup.is_all_ours || self.is_gone(resources, owner, now) {
            return self.grant(parameters, lock, now);
        }
        let counter = self.counters(resources, now)?.largest;
        let awaited =
            resources.iter().position(|resource| self.is_awaited(parameters, resource, now, subscribers));
        let marked = || resources.iter().position(|resource| self.is_marked(resource, now));
        let is_free = lookup.other.is_none();
        let Some(resource) = awaited.or_else(|| if is_free { marked() } else { None }) else {
            if let Some(holder) = lookup.other.as_ref().filter(|holder| !holder.remaining.is_zero()) {
                // No longer than the longest ttl, as the sign that there are marks may end then.
                let until = now + holder.remaining.min(parameters.max_ttl);
                self.marks.extend(resources.get(holder.resource).map(|held| (held.clone(), until)));
            }
            return self.grant(parameters, lock, now);
        };
        let holder = lookup.other.map(|holder| Holder { counter, ..holder });
        let rank = u32::from(awaited.is_some());
        Ok(Answer::Queued(Queued { resource, ticket: 0, rank, patience: Duration::ZERO, holder }))
    }

    /// Locks, even if others wait.
    pub(super) fn grant(
        &mut self,
        parameters: &QuorumParameters,
        lock: &Lock,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let Lock { resources, owner, ttl, hint, .. } = lock;
        if self.is_gone(resources, owner, now) {
            return Ok(Answer::Gone);
        }
        let lookup = self.look_up(resources, owner, now);
        let counters = self.counters(resources, now)?;
        if let Some(holder) = lookup.other {
            return Ok(Answer::Held(Holder { counter: counters.largest, ..holder }));
        }
        // A lock that arrives twice gets the same vote twice. But one that the node does not
        // remember, or that is below the minimum token, is no vote to repeat.
        let minimum_token = self.minimum_token()?;
        let is_resend = lookup.is_all_ours && !counters.is_any_missing() && counters.largest >= minimum_token;
        let vote = if is_resend {
            counters.largest
        } else {
            let below = counters.largest_or_start(now).max(minimum_token).max(moved_by_hint(*hint, now));
            if below >= LARGEST_COUNTER {
                return Err(used_up(below));
            }
            below + 1
        };
        for resource in resources.iter() {
            self.count(parameters, resource, vote, now);
            let stored = self.held(resource, now).map(|held| held.holds).filter(|_| is_resend);
            self.own(resource, owner, stored.unwrap_or(1), *ttl, now);
            self.marks.remove(resource);
        }
        Ok(Answer::Granted { vote })
    }

    pub(super) fn write_back(
        &mut self,
        parameters: &QuorumParameters,
        write_back: &WriteBack,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let WriteBack { resources, owner, token } = write_back;
        let token = usable(*token)?;
        let lookup = self.look_up(resources, owner, now);
        let counters = self.counters(resources, now)?;
        let unconditional = mutation::is_on(Mutation::WriteBackUnconditionally);
        let is_ours = lookup.is_all_ours || unconditional || mutation::is_on(Mutation::WriteBackWithoutOwner);
        let is_below = counters.largest_or_start(now) <= token
            || unconditional
            || mutation::is_on(Mutation::WriteBackAboveToken);
        if !(is_ours && is_below) {
            return Ok(Answer::NotWrittenBack { counter: counters.largest });
        }
        for resource in resources.iter() {
            self.count(parameters, resource, token, now);
        }
        Ok(Answer::WrittenBack)
    }

    pub(super) fn renew(
        &mut self,
        parameters: &QuorumParameters,
        renew: &Renew,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let Renew { resources, owner, holds, ttl, token } = renew;
        let token = usable(*token)?;
        if self.is_gone(resources, owner, now) {
            return Ok(Answer::Gone);
        }
        let lookup = self.look_up(resources, owner, now);
        let counters = self.counters(resources, now)?;
        if let Some(holder) = lookup.other {
            return Ok(Answer::Held(Holder { counter: counters.largest, ..holder }));
        }
        self.note_quorum(parameters, now);
        let abstention = self.abstention_from_renewals(parameters, now);
        // A counter that is missing may have been above the token; so may one that the node forgot,
        // hence the minimum token.
        let is_below = counters.largest <= token || mutation::is_on(Mutation::VerifyAboveToken);
        let is_missing = counters.is_any_missing() && !mutation::is_on(Mutation::VerifyForgetful);
        let proves = !is_missing && is_below && self.minimum_token()? <= token;
        if mutation::is_on(Mutation::HealOnlyBelowToken) && !lookup.is_all_ours && counters.largest > token {
            return Ok(Answer::NotWrittenBack { counter: counters.largest });
        }
        // Where the counter was lost, it comes back above the token: a node that forgot must not
        // prove anything later either.
        for (resource, found) in resources.iter().zip(&counters.found) {
            if mutation::is_on(Mutation::HoldsAsIncrements) && *holds == 0 {
                let stored = self.held(resource, now).filter(|held| held.holds > 1).cloned();
                self.set_lock(resource, stored.map(|held| HeldKey { holds: held.holds - 1, ..held }));
                continue;
            }
            let above = if mutation::is_on(Mutation::VerifyForgetful) { token } else { token + 1 };
            let regained = start(now).max(above).min(LARGEST_COUNTER);
            self.count(parameters, resource, found.map_or(regained, |found| found.max(token)), now);
            self.own(resource, owner, *holds, *ttl, now);
        }
        let is_awaited = resources.iter().any(|resource| self.wait_queue(resource, now).is_some());
        Ok(abstention
            .map_or_else(|| Answer::Renewed { proves }.awaited(is_awaited), Answer::RenewedInQuarantine))
    }

    /// Whether newcomers are to let others go first.
    fn is_marked(&self, resource: &Resource, now: NodeTime) -> bool {
        let until = self.marks.get(resource).filter(|_| !mutation::is_on(Mutation::LetNobodyFirst));
        until.is_some_and(|until| !until.is_past(now))
    }

    /// Makes a resource the owner's; a ttl that ends later stays.
    fn own(&mut self, resource: &Resource, owner: &OwnerId, holds: u32, ttl: Duration, now: NodeTime) {
        let wanted = now + ttl;
        let stored = self.held(resource, now).filter(|_| !mutation::is_on(Mutation::ShortenTtl));
        let expires_at = stored.map_or(wanted, |held| held.expires_at.max(wanted));
        self.set_lock(resource, Some(HeldKey { owner: owner.clone(), holds, expires_at }));
    }
}
