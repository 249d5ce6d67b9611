//! The workload of a lock with tickets: most holders turn their lease into a ticket, and put the ticket into the queue
//! of jobs. The worker that takes the job redeems or releases the ticket. The queue delivers some jobs twice.

use std::time::Duration;

use anyhow::Context;
use rand::RngExt;
use redquorum::{LockGuard, Ticket};

use super::{DRIFT, MAX_TTL, Worker, journal::Held, options};
use crate::{
    clock::{nanoseconds, now},
    event::{Object, Stage, Value},
};

const NAME: &str = "histories:ticket";

/// The longest wait for the lock before the worker looks for a job again.
const WAIT_BETWEEN_JOBS: Duration = Duration::from_millis(100);

/// The 2 ms by which the validity of a lease is shorter, because of the granularity of clocks.
const GRANULARITY: Duration = Duration::from_millis(2);

impl Worker {
    pub(super) async fn ticket(&mut self) -> anyhow::Result<()> {
        let held = match self.store.take_job().await? {
            Some(job) => self.take_over(&job).await?,
            None => {
                let lock = self.quorum.red_lock(NAME).options(options());
                let call = lock.try_lock_for(WAIT_BETWEEN_JOBS);
                let how = (Value::Nil, Stage::Fail);
                self.journal.acquire("acquire", how, call, |_, n| n.into()).await?
            }
        };
        let Some((guard, mut held)) = held else { return Ok(()) };
        self.append(0, &guard, &mut held).await?;
        if self.random.random_bool(0.7) {
            self.pass_on(guard, held).await
        } else {
            self.journal.release(guard, held, async |guard| guard.unlock().await).await
        }
    }

    /// Redeems the ticket of a job, or releases the ticket.
    async fn take_over(&mut self, job: &str) -> anyhow::Result<Option<(LockGuard, Held)>> {
        let (number, ticket) = job.split_once(' ').context("a job is a number and a ticket")?;
        let (number, ticket): (i64, Ticket) = (number.parse()?, ticket.parse()?);
        let asked = Value::Number(number);
        if self.random.random_bool(0.9) {
            let redeemed = self.quorum.redeem(&ticket, options());
            // A redemption in vain may spend the ticket, even later.
            return self.journal.acquire("redeem", (asked, Stage::Info), redeemed, |_, n| n.into()).await;
        }
        let release = self.journal.begin(Object::Leases, "release-ticket", asked.clone())?;
        let has_quorum = self.quorum.release(&ticket).await.is_ok_and(|replies| replies.has_quorum());
        self.journal.end(release, if has_quorum { Stage::Ok } else { Stage::Info }, asked)?;
        Ok(None)
    }

    /// Turns the lease into a ticket, and puts the ticket into the queue of jobs.
    async fn pass_on(&mut self, guard: LockGuard, held: Held) -> anyhow::Result<()> {
        let Some(issue) = self.journal.begin_end("issue", &guard, &held)? else { return Ok(()) };
        let token = self.journal.begin(Object::Tokens, "issue", Value::Nil)?;
        let ttl = Duration::from_millis(self.random.random_range(600..=MAX_TTL.as_millis() as u64));
        let begin = now();
        let Ok(ticket) = guard.into_ticket(ttl).await else {
            self.journal.end(token, Stage::Fail, Value::Nil)?;
            return self.journal.end(issue, Stage::Ok, Value::pair(held.number, None));
        };
        let number = self.journal.number();
        self.journal.end(token, Stage::Ok, i64::from(ticket.fencing_token()).into())?;
        self.journal.may_expire(number, begin + nanoseconds(ttl.mul_f64(1.0 - DRIFT) - GRANULARITY))?;
        self.journal.end(issue, Stage::Ok, Value::pair(held.number, number))?;
        let copies = if self.random.random_bool(0.25) { 2 } else { 1 };
        for _ in 0..copies {
            self.store.add_job(&format!("{number} {ticket}")).await?;
        }
        Ok(())
    }
}
