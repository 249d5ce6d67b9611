//! The workload of a semaphore: each slot has a list of its own.

use redquorum::Permit;

use super::{WAIT, Worker, options};
use crate::{
    event::{Stage, Value},
    kind::PERMITS,
};

const NAME: &str = "histories:semaphore";

impl Worker {
    pub(super) async fn semaphore(&mut self) -> anyhow::Result<()> {
        let semaphore = self.quorum.semaphore(NAME, PERMITS).options(options());
        let call = semaphore.try_acquire_for(WAIT);
        let how = (Value::Nil, Stage::Fail);
        let described = |permit: &Permit, number| Value::pair(slot(permit), number);
        let acquired = self.journal.acquire("acquire", how, call, described).await?;
        let Some((permit, mut held)) = acquired else { return Ok(()) };
        self.append(slot(&permit), &permit, &mut held).await?;
        self.journal.release(permit, held, async |permit| permit.release().await).await
    }
}

fn slot(permit: &Permit) -> i64 {
    i64::try_from(permit.slot()).unwrap_or(i64::MAX)
}
