//! The journal of a worker: each event is a line that is written before the worker continues. If the worker is killed,
//! the written lines remain.

use std::{
    io::{self, Write},
    ops::Deref,
};

use redquorum::{
    Error, Lease,
    error::{LossReason, NodeReplies},
};
use tokio::time::sleep;

use super::PAUSE;
use crate::{
    clock::{Nanoseconds, nanoseconds, now},
    event::{Event, Object, Stage, Value},
    history::RELEASE,
};

/// The numbers that one worker gives to its leases and tickets.
const NUMBERS: i64 = 1_000_000;

#[derive(Debug)]
pub(super) struct Journal {
    process: i64,
    given: i64,
}

/// An operation that has begun.
#[derive(Debug)]
#[must_use = "each operation has an end"]
pub(super) struct Begun {
    object: Object,
    function: &'static str,
}

/// A lease of this worker, with what the worker knows of the validity.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) number: i64,
    /// The last instant at which the worker found the lease valid.
    found_valid: Nanoseconds,
    /// The instant until which the lease is valid without a further renewal.
    until: Nanoseconds,
}

impl Journal {
    pub(super) fn new(process: i64) -> Self {
        Self { process, given: 0 }
    }

    pub(super) fn process(&self) -> i64 {
        self.process
    }

    /// Returns a number that no other lease or ticket of the run has.
    pub(super) fn number(&mut self) -> i64 {
        self.given += 1;
        (self.process + 1) * NUMBERS + self.given
    }

    pub(super) fn begin(
        &mut self,
        object: Object,
        function: &'static str,
        asked: Value,
    ) -> anyhow::Result<Begun> {
        self.begin_at(now(), object, function, asked)
    }

    fn begin_at(
        &mut self,
        time: Nanoseconds,
        object: Object,
        function: &'static str,
        asked: Value,
    ) -> anyhow::Result<Begun> {
        self.write(self.process, object, Stage::Invoke, function, asked, time)?;
        Ok(Begun { object, function })
    }

    pub(super) fn end(&mut self, begun: Begun, stage: Stage, value: Value) -> anyhow::Result<()> {
        self.end_at(now(), begun, stage, value)
    }

    pub(super) fn end_at(
        &mut self,
        time: Nanoseconds,
        begun: Begun,
        stage: Stage,
        value: Value,
    ) -> anyhow::Result<()> {
        self.write(self.process, begun.object, stage, begun.function, value, time)
    }

    /// Writes that a ticket may end by its ttl, at some time after `from`.
    pub(super) fn may_expire(&mut self, ticket: i64, from: Nanoseconds) -> anyhow::Result<()> {
        // The operation has no end, so it has a process of its own.
        self.write(-ticket, Object::Leases, Stage::Invoke, "expire", ticket.into(), from)
    }

    /// Acquires a lease, and writes the lease and its token. Returns `None` if there is no lease, or if the lease was
    /// over when the worker looked at it for the first time.
    ///
    /// `if_over` is the end of an operation on leases that returned no valid lease.
    pub(super) async fn acquire<G: Deref<Target = Lease>>(
        &mut self,
        function: &'static str,
        (asked, if_over): (Value, Stage),
        call: impl Future<Output = Result<Option<G>, Error>>,
        described: impl Fn(&G, i64) -> Value,
    ) -> anyhow::Result<Option<(G, Held)>> {
        let lease = self.begin(Object::Leases, function, asked)?;
        let token = self.begin(Object::Tokens, function, Value::Nil)?;
        let guard = match call.await {
            Ok(Some(guard)) => guard,
            failure => {
                self.end(token, Stage::Fail, Value::Nil)?;
                self.end(lease, if_over, Value::Nil)?;
                if failure.is_err() {
                    sleep(PAUSE).await;
                }
                return Ok(None);
            }
        };
        let granted = now();
        self.end_at(granted, token, Stage::Ok, described(&guard, guard.fencing_token().into()))?;
        let Some(held) = self.hold(&guard, granted)? else {
            // The lease was valid for some time during the call, but the times are not known.
            self.end_at(granted, lease, if_over, Value::Nil)?;
            return Ok(None);
        };
        self.end_at(granted, lease, Stage::Ok, described(&guard, held.number))?;
        Ok(Some((guard, held)))
    }

    /// Gives a number to a lease that was granted before this instant. Returns `None` if the lease is over. Otherwise the
    /// lease was valid at this instant.
    pub(super) fn hold(&mut self, lease: &Lease, granted: Nanoseconds) -> anyhow::Result<Option<Held>> {
        let remaining = lease.remaining();
        if remaining.is_zero() {
            return Ok(None);
        }
        let until = granted + nanoseconds(remaining);
        let mut held = Held { number: self.number(), found_valid: granted, until };
        self.look(lease, &mut held)?;
        Ok(Some(held))
    }

    /// Looks at a lease, and writes until when it is valid.
    pub(super) fn look(&mut self, lease: &Lease, held: &mut Held) -> anyhow::Result<()> {
        let time = now();
        let remaining = lease.remaining();
        if !remaining.is_zero() {
            held.found_valid = time;
            held.until = held.until.max(time + nanoseconds(remaining));
        }
        self.write(self.process, Object::Leases, Stage::Until, RELEASE, held.number.into(), held.until)
    }

    /// Begins an operation that ends a valid lease. The lease is valid until the beginning at least. If the lease is
    /// over already, writes its end and returns `None`.
    pub(super) fn begin_end(
        &mut self,
        function: &'static str,
        lease: &Lease,
        held: &Held,
    ) -> anyhow::Result<Option<Begun>> {
        let time = now();
        let last_valid = match lease.ensure() {
            Ok(()) => return self.begin_at(time, Object::Leases, function, held.number.into()).map(Some),
            Err(Error::LeaseLost(lost)) if lost.reason == LossReason::Expired => held.until,
            // A revoked lease ends before the time until which it would have been valid.
            Err(_) => held.found_valid,
        };
        let found_over = now();
        let release = self.begin_at(last_valid, Object::Leases, RELEASE, held.number.into())?;
        self.end_at(found_over, release, Stage::Ok, held.number.into())?;
        Ok(None)
    }

    /// Ends a lease by this call, and writes its end.
    pub(super) async fn release<G: Deref<Target = Lease>>(
        &mut self,
        guard: G,
        held: Held,
        unlock: impl AsyncFnOnce(G) -> Result<NodeReplies, Error>,
    ) -> anyhow::Result<()> {
        let release = self.begin_end(RELEASE, &guard, &held)?;
        // An error means that the lease ended between the check above and the call.
        unlock(guard).await.ok();
        match release {
            Some(release) => self.end(release, Stage::Ok, held.number.into()),
            None => Ok(()),
        }
    }

    fn write(
        &self,
        process: i64,
        object: Object,
        stage: Stage,
        function: &str,
        value: Value,
        time: Nanoseconds,
    ) -> anyhow::Result<()> {
        let function = function.to_owned();
        let event = Event { object, process, stage, function, value, time };
        Ok(io::stdout().lock().write_all(format!("{event}\n").as_bytes())?)
    }
}
