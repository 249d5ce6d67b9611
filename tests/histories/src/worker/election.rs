//! The workload of an election: the term of the leader is the token of the lease.

use super::{WAIT, Worker, options};
use crate::event::{Stage, Value};

const NAME: &str = "histories:election";

impl Worker {
    pub(super) async fn election(&mut self) -> anyhow::Result<()> {
        let election = self.quorum.election(NAME).options(options());
        let name = format!("worker {}", self.journal.process());
        let call = election.try_campaign_for(&name, WAIT);
        let how = (Value::Nil, Stage::Fail);
        let elected = self.journal.acquire("acquire", how, call, |_, n| n.into()).await?;
        let Some((leadership, mut held)) = elected else { return Ok(()) };
        self.append(0, &leadership, &mut held).await?;
        self.journal.release(leadership, held, async |leadership| leadership.resign().await).await
    }
}
