//! The floor: commands that are sent to all nodes without a library, in rounds that end at the positive reply of a
//! majority.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures::{
    future::BoxFuture,
    stream::{FuturesUnordered, StreamExt},
};
use redis::{RedisResult, Value, aio::MultiplexedConnection};

use super::{
    recording::{self, Recording, Template},
    servers::{Servers, connection_to},
};
use crate::Problem;

/// One plain multiplexed connection for each node. All tasks share the connections.
#[derive(Clone)]
pub(crate) struct Floor {
    nodes: Arc<[(MultiplexedConnection, Recording)]>,
    /// The number of owners so far, which makes each owner unique.
    owners: Arc<AtomicU64>,
}

/// One task on the floor.
pub(crate) struct FloorTask {
    floor: Floor,
    resource: String,
    /// The requests without a reply, each with the number of its round. Late replies are also collected, because a
    /// command of the redis crate that is dropped may never be sent.
    open: FuturesUnordered<BoxFuture<'static, (u64, RedisResult<Value>)>>,
    round: u64,
}

/// A lock on the floor.
pub(crate) struct BareLock {
    owner: String,
}

impl Floor {
    /// Returns the floor that sends the requests of the library for a lock and an unlock.
    pub(crate) async fn of_our_scripts(servers: &Servers) -> Result<Self, Problem> {
        Self::of(servers, recording::record(servers).await?).await
    }

    /// Returns the floor that sends `SET key owner NX PX ttl`, and a script that compares and deletes.
    pub(crate) async fn of_one_line(servers: &Servers) -> Result<Self, Problem> {
        let mut recordings = Vec::new();
        for server in servers.all() {
            recordings.push(Recording::one_line(server).await?);
        }
        Self::of(servers, recordings).await
    }

    async fn of(servers: &Servers, recordings: Vec<Recording>) -> Result<Self, Problem> {
        let mut nodes = Vec::new();
        for (server, recording) in servers.all().iter().zip(recordings) {
            nodes.push((connection_to(server).await?, recording));
        }
        Ok(Self { nodes: nodes.into(), owners: Arc::default() })
    }

    pub(crate) fn task(&self, resource: &str) -> FloorTask {
        FloorTask {
            floor: self.clone(),
            resource: resource.to_owned(),
            open: FuturesUnordered::new(),
            round: 0,
        }
    }
}

impl FloorTask {
    pub(crate) async fn lock(&mut self) -> Result<BareLock, Problem> {
        let number = self.floor.owners.fetch_add(1, Ordering::Relaxed);
        // The owner is as long as a lease id of the library.
        let owner = format!("01234567-89ab-cdef-0123-456789abcdef:{number}");
        self.send_to_all(|recording| &recording.lock, &owner, is_grant).await?;
        Ok(BareLock { owner })
    }

    pub(crate) async fn unlock(&mut self, lock: BareLock) -> Result<(), Problem> {
        self.send_to_all(|recording| &recording.unlock, &lock.owner, is_unlock).await
    }

    /// Sends a request to all nodes at once, and returns when a majority of the nodes has replied positively. If the
    /// nodes that have not refused are no majority any more, returns an error.
    async fn send_to_all(
        &mut self,
        template: impl Fn(&Recording) -> &Template,
        owner: &str,
        is_positive: impl Fn(&Value) -> bool,
    ) -> Result<(), Problem> {
        self.round += 1;
        let round = self.round;
        for (connection, recording) in self.floor.nodes.iter() {
            let command = template(recording).command(&self.resource, owner);
            let mut connection = connection.clone();
            self.open.push(Box::pin(async move { (round, connection.send_packed_command(&command).await) }));
        }
        let nodes = self.floor.nodes.len();
        let (mut positive, mut refused) = (0, 0);
        while let Some((reply_round, reply)) = self.open.next().await {
            if reply_round != round {
                continue;
            }
            let reply = reply?;
            if is_positive(&reply) {
                positive += 1;
            } else {
                refused += 1;
            }
            if positive > nodes / 2 {
                return Ok(());
            }
            if nodes - refused <= nodes / 2 {
                return Err(format!(
                    "a majority of the nodes refused the request of the floor, the last by {reply:?}"
                )
                .into());
            }
        }
        Err("no request of the floor is left, and no majority has replied".into())
    }
}

/// Whether the reply grants the lock: `OK` of `SET`, or the answer of a script.
fn is_grant(reply: &Value) -> bool {
    *reply == Value::Okay || is_unlock(reply)
}

/// Whether the reply is a number, or a list of one number, as the scripts of redquorum return for one operation. A
/// refusal has another form.
fn is_unlock(reply: &Value) -> bool {
    match reply {
        Value::Int(_) => true,
        Value::Array(answers) => matches!(&**answers, [Value::Int(_)]),
        _ => false,
    }
}
