//! The workload of a read/write lock: writers append, readers read twice, and some writers become readers.

use rand::RngExt;

use super::{WAIT, Worker, options};
use crate::{
    clock::now,
    event::{Object, Stage, Value},
};

const NAME: &str = "histories:rw-lock";

impl Worker {
    pub(super) async fn rw_lock(&mut self) -> anyhow::Result<()> {
        let lock = self.quorum.rw_lock(NAME).options(options());
        let how = (Value::Nil, Stage::Fail);
        if self.random.random_bool(0.5) {
            let call = lock.try_read_for(WAIT);
            let read = self.journal.acquire("acquire-read", how, call, |_, n| n.into()).await?;
            let Some((guard, mut held)) = read else { return Ok(()) };
            self.read_twice(0, &guard, &mut held).await?;
            return self.journal.release(guard, held, async |guard| guard.unlock().await).await;
        }
        let call = lock.try_write_for(WAIT);
        let written = self.journal.acquire("acquire-write", how, call, |_, n| n.into()).await?;
        let Some((guard, mut held)) = written else { return Ok(()) };
        self.append(0, &guard, &mut held).await?;
        if self.random.random_bool(0.7) {
            return self.journal.release(guard, held, async |guard| guard.unlock().await).await;
        }

        let Some(downgrade) = self.journal.begin_end("downgrade", &guard, &held)? else { return Ok(()) };
        let token = self.journal.begin(Object::Tokens, "downgrade", Value::Nil)?;
        let Ok(reader) = guard.downgrade().await else {
            self.journal.end(token, Stage::Fail, Value::Nil)?;
            return self.journal.end(downgrade, Stage::Ok, Value::pair(held.number, None));
        };
        let granted = now();
        self.journal.end_at(granted, token, Stage::Ok, i64::from(reader.fencing_token()).into())?;
        let read = self.journal.hold(&reader, granted)?;
        let leases = Value::pair(held.number, read.as_ref().map(|read| read.number));
        self.journal.end_at(granted, downgrade, Stage::Ok, leases)?;
        let Some(mut read) = read else { return Ok(()) };
        self.read_twice(0, &reader, &mut read).await?;
        self.journal.release(reader, read, async |guard| guard.unlock().await).await
    }
}
