//! The floor: commands sent bare to all nodes, resumed at the q-th reply.

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
    servers::Servers,
};
use crate::Problem;

/// One plain multiplexed connection for each node, shared by all tasks.
#[derive(Clone)]
pub(crate) struct Floor {
    nodes: Arc<[(MultiplexedConnection, Recording)]>,
    owners: Arc<AtomicU64>,
}

/// One task on the floor.
pub(crate) struct FloorTask {
    floor: Floor,
    resource: String,
    /// Replies that nobody waits for any more are collected all the same: a command of the redis crate that is dropped may
    /// never be sent.
    open: FuturesUnordered<BoxFuture<'static, (u64, RedisResult<Value>)>>,
    round: u64,
}

/// A lock on the floor.
pub(crate) struct BareLock {
    owner: String,
    token: u64,
}

impl Floor {
    /// The library's own lock and unlock.
    pub(crate) async fn of_our_scripts(servers: &Servers) -> Result<Self, Problem> {
        Self::of(servers, recording::record(servers).await?).await
    }

    /// `SET key owner NX PX ttl`, and a script that compares and deletes.
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
            nodes.push((server.connection().await?, recording));
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
        // As long as the library's.
        let owner = format!("01234567-89ab-cdef-0123-456789abcdef:{number}");
        let token = self.ask(|recording| &recording.lock, &owner, 0, granted).await?;
        Ok(BareLock { owner, token })
    }

    pub(crate) async fn unlock(&mut self, lock: BareLock) -> Result<(), Problem> {
        self.ask(|recording| &recording.unlock, &lock.owner, lock.token, unlocked).await?;
        Ok(())
    }

    /// Asks all nodes at once and returns at the q-th yes, with the largest number that came with one.
    async fn ask(
        &mut self,
        template: impl Fn(&Recording) -> &Template,
        owner: &str,
        token: u64,
        yes: impl Fn(&Value) -> Option<u64>,
    ) -> Result<u64, Problem> {
        self.round += 1;
        let round = self.round;
        for (connection, recording) in self.floor.nodes.iter() {
            let command = template(recording).command(&self.resource, owner, token);
            let mut connection = connection.clone();
            self.open.push(Box::pin(async move { (round, connection.send_packed_command(&command).await) }));
        }
        let nodes = self.floor.nodes.len();
        let (mut granted, mut refused, mut largest) = (0, 0, 0);
        while let Some((of, reply)) = self.open.next().await {
            if of != round {
                continue;
            }
            let reply = reply?;
            match yes(&reply) {
                Some(number) => (granted, largest) = (granted + 1, largest.max(number)),
                None => refused += 1,
            }
            if granted > nodes / 2 {
                return Ok(largest);
            }
            if nodes - refused <= nodes / 2 {
                return Err(format!("the floor was refused: {reply:?}").into());
            }
        }
        Err("the floor heard nothing".into())
    }
}

/// The vote, if the lock was granted.
fn granted(reply: &Value) -> Option<u64> {
    match reply {
        Value::Okay => Some(0),
        reply => number(reply),
    }
}

/// How many locks were deleted.
fn unlocked(reply: &Value) -> Option<u64> {
    number(reply)
}

/// The number in a reply, or in the answer of its only entry: ours are lists of answers.
fn number(reply: &Value) -> Option<u64> {
    match reply {
        Value::Int(number) => u64::try_from(*number).ok(),
        Value::Array(answers) => match &**answers {
            [Value::Int(number)] => u64::try_from(*number).ok(),
            _ => None,
        },
        _ => None,
    }
}
