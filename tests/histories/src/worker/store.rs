//! The store: one Redis server that no fault concerns, with the lists, the tokens of their accesses, and the queue of
//! jobs.

use anyhow::Context;
use redis::{Client, FromRedisValue, aio::MultiplexedConnection};
use redquorum::FencingToken;

use crate::kind::Store;

/// The access that the token of a lease gives.
#[derive(Clone, Copy, Debug)]
pub(super) enum Role {
    Reader,
    Writer,
}

/// `KEYS[1]` list, `KEYS[2]` fence, `ARGV[1]` token, `ARGV[2]` role, `ARGV[3]` rule of the store, `ARGV[4]` `read` or
/// `write`, and then all elements of a write. Returns the elements, or nil if the token is refused.
const ACCESS: &str = "
if ARGV[3] == 'fenced' then
    local token = tonumber(ARGV[1])
    local writer = tonumber(redis.call('HGET', KEYS[2], 'writer') or 0)
    local reader = tonumber(redis.call('HGET', KEYS[2], 'reader') or 0)
    if token < writer or (ARGV[2] == 'writer' and token < reader) then return false end
    if ARGV[2] == 'writer' or token > reader then redis.call('HSET', KEYS[2], ARGV[2], ARGV[1]) end
end
if ARGV[4] == 'write' then
    redis.call('DEL', KEYS[1])
    for i = 5, #ARGV do redis.call('RPUSH', KEYS[1], ARGV[i]) end
end
return redis.call('LRANGE', KEYS[1], 0, -1)";

const JOBS: &str = "jobs";

pub(super) struct StoreClient {
    connection: MultiplexedConnection,
    rule: Store,
}

impl StoreClient {
    pub(super) async fn connect(url: &str, rule: Store) -> anyhow::Result<Self> {
        let client = Client::open(url)?;
        // The worker may be stopped for longer than the default limit of a response.
        let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
        let connection = client.get_multiplexed_async_connection_with_config(&config).await;
        Ok(Self { connection: connection.context("the store does not answer")?, rule })
    }

    /// Returns the elements of a list, or `None` if the store refuses the token.
    pub(super) async fn read(
        &mut self,
        list: i64,
        token: FencingToken,
        role: Role,
    ) -> anyhow::Result<Option<Vec<i64>>> {
        self.access(list, token, role, "read", &[]).await
    }

    /// Replaces a list. Returns `false` if the store refuses the token.
    pub(super) async fn write(
        &mut self,
        list: i64,
        token: FencingToken,
        elements: &[i64],
    ) -> anyhow::Result<bool> {
        Ok(self.access(list, token, Role::Writer, "write", elements).await?.is_some())
    }

    async fn access(
        &mut self,
        list: i64,
        token: FencingToken,
        role: Role,
        access: &str,
        elements: &[i64],
    ) -> anyhow::Result<Option<Vec<i64>>> {
        let role = match role {
            Role::Reader => "reader",
            Role::Writer => "writer",
        };
        let mut command = redis::cmd("EVAL");
        command.arg(ACCESS).arg(2).arg(format!("list:{list}")).arg(format!("fence:{list}"));
        command.arg(token.as_u64()).arg(role).arg(self.rule.to_string()).arg(access).arg(elements);
        self.send(&command).await
    }

    /// Adds a job at the end of the queue.
    pub(super) async fn add_job(&mut self, job: &str) -> anyhow::Result<()> {
        self.send(redis::cmd("RPUSH").arg(JOBS).arg(job)).await
    }

    /// Takes the first job from the queue.
    pub(super) async fn take_job(&mut self) -> anyhow::Result<Option<String>> {
        self.send(redis::cmd("LPOP").arg(JOBS)).await
    }

    async fn send<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> anyhow::Result<T> {
        command.query_async(&mut self.connection).await.context("the store does not answer")
    }
}
