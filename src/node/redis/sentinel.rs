//! A node whose server is named by Sentinels: the present master of a set.

use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::future::{Either, select};
use redis::Value;

use super::{
    endpoint::{Credentials, Endpoint},
    raw_connection::RawConnection,
    tls::Connector,
};
use crate::{clock::Clock, values::NodeError};

/// A master and its replicas, known to Sentinels by a name. Which of them is the master is asked
/// anew at every dial.
#[derive(Debug)]
pub(super) struct MasterSet {
    name: String,
    sentinels: Vec<Endpoint>,
    credentials: Credentials,
    connector: Option<Connector>,
    /// The Sentinel to ask first: the one that answered last, so that a dead one costs its time
    /// once.
    first: AtomicUsize,
}

impl MasterSet {
    pub(super) fn new(
        name: String,
        sentinels: Vec<Endpoint>,
        credentials: Credentials,
        connector: Option<Connector>,
    ) -> Self {
        Self { name, sentinels, credentials, connector, first: AtomicUsize::new(0) }
    }

    /// The address of the set, the same after every failover and in whichever order its Sentinels
    /// are listed.
    pub(super) fn address(&self) -> String {
        let first = self.sentinels.iter().map(Endpoint::address).min().unwrap_or_default();
        format!("{first}/{}", self.name)
    }

    /// The present master, as the first Sentinel says that answers.
    ///
    /// Each of them has an equal share of a dial's time, and the master one as well.
    pub(super) async fn master(
        &self,
        clock: &dyn Clock,
        dial_timeout: Duration,
    ) -> Result<Endpoint, NodeError> {
        let (count, share) = (self.sentinels.len(), self.share(dial_timeout));
        let mut said = Vec::new();
        let first = self.first.load(Ordering::Relaxed);
        for sentinel in self.sentinels.iter().cycle().skip(first % count.max(1)).take(count) {
            let patience = clock.sleep_until(clock.now() + share);
            let answer = match select(pin!(self.ask(sentinel)), patience).await {
                Either::Left((answer, _)) => answer,
                Either::Right(((), _)) => Err(format!("no answer within {share:?}")),
            };
            match answer {
                Ok((host, port)) => return Ok(self.endpoint(&host, port)),
                Err(why) => said.push(format!("{}: {why}", sentinel.address())),
            }
            self.doubt();
        }
        Err(NodeError::NoMaster(said.join("; ").into()))
    }

    /// How much of a dial's time each Sentinel has, and the master as well.
    pub(super) fn share(&self, dial_timeout: Duration) -> Duration {
        dial_timeout / u32::try_from(self.sentinels.len() + 1).unwrap_or(u32::MAX)
    }

    /// Asks another Sentinel first from now on: what this one said was of no use.
    pub(super) fn doubt(&self) {
        self.first.fetch_add(1, Ordering::Relaxed);
    }

    /// A server of the set.
    pub(super) fn endpoint(&self, host: &str, port: u16) -> Endpoint {
        Endpoint::tcp(host, port, self.connector.clone(), self.credentials.clone())
    }

    #[cfg(test)]
    pub(super) fn sentinels(&self) -> &[Endpoint] {
        &self.sentinels
    }

    async fn ask(&self, sentinel: &Endpoint) -> Result<(String, u16), String> {
        let mut raw = RawConnection::open(sentinel).await.map_err(|node_error| node_error.to_string())?;
        let mut command = redis::cmd("SENTINEL");
        let asked = raw.start(command.arg("GET-MASTER-ADDR-BY-NAME").arg(&*self.name).clone());
        match raw.hear(asked).await.map_err(|node_error| node_error.to_string())? {
            Value::Nil => Err(format!("watches no master by the name of {}", self.name)),
            answer => redis::from_redis_value(answer).map_err(|error| error.to_string()),
        }
    }
}
