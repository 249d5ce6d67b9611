//! The workload of a lock.

use super::{WAIT, Worker, options};
use crate::event::{Stage, Value};

const NAME: &str = "histories:lock";

impl Worker {
    pub(super) async fn lock(&mut self) -> anyhow::Result<()> {
        let lock = self.quorum.red_lock(NAME).options(options());
        let call = lock.try_lock_for(WAIT);
        let how = (Value::Nil, Stage::Fail);
        let Some((guard, mut held)) = self.journal.acquire("acquire", how, call, |_, n| n.into()).await?
        else {
            return Ok(());
        };
        self.append(0, &guard, &mut held).await?;
        self.journal.release(guard, held, async |guard| guard.unlock().await).await
    }
}
