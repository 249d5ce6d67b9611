//! The workload of a lock.

use tokio::time::sleep;

use super::{PAUSE, WAIT, Worker, options};
use crate::event::{Stage, Value};

const NAME: &str = "histories:lock";

impl Worker {
    pub(super) async fn lock(&mut self) -> anyhow::Result<()> {
        let lock = self.quorum.red_lock(NAME).options(options());
        let has_restart_guard = self.has_restart_guard;
        let call = async {
            if has_restart_guard {
                return lock.try_lock_for(WAIT).await;
            }
            // A waiter remembers the holder, and takes no vote of a node that has forgotten the holder. So the workers
            // do not wait: their locks are to break.
            sleep(PAUSE).await;
            lock.try_lock().await
        };
        let how = (Value::Nil, Stage::Fail);
        let Some((guard, mut held)) = self.journal.acquire("acquire", how, call, |_, n| n.into()).await?
        else {
            return Ok(());
        };
        self.append(0, &guard, &mut held).await?;
        self.journal.release(guard, held, async |guard| guard.unlock().await).await
    }
}
