//! A client that sends the commands and scripts of Redisson's `RLock` to one server.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use redis::{Client, FromRedisValue, aio::MultiplexedConnection, cmd};
use redquorum_tests::Server;
use tokio::sync::Notify;
use uuid::Uuid;

/// KEYS: lock. ARGV: ttl in ms, owner. Returns nil, or the remaining ttl of another holder.
const LOCK: &str = "
    if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('HEXISTS', KEYS[1], ARGV[2]) == 1 then
        redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
        redis.call('PEXPIRE', KEYS[1], ARGV[1])
        return nil
    end
    return redis.call('PTTL', KEYS[1])";

/// KEYS: lock, channel, latch. ARGV: message, ttl in ms, owner, publish command, ttl of the latch in ms.
/// Returns 1, or 0 if the owner has more holds, or nil if the owner has no hold.
const UNLOCK: &str = "
    local latch = redis.call('GET', KEYS[3])
    if latch then
        return tonumber(latch)
    end
    if redis.call('HEXISTS', KEYS[1], ARGV[3]) == 0 then
        return nil
    end
    if redis.call('HINCRBY', KEYS[1], ARGV[3], -1) > 0 then
        redis.call('PEXPIRE', KEYS[1], ARGV[2])
        redis.call('SET', KEYS[3], 0, 'PX', ARGV[5])
        return 0
    end
    redis.call('DEL', KEYS[1])
    redis.call(ARGV[4], KEYS[2], ARGV[1])
    redis.call('SET', KEYS[3], 1, 'PX', ARGV[5])
    return 1";

/// KEYS: lock, channel. ARGV: message, publish command. Returns 1, or 0 if the lock was free.
const FORCE_UNLOCK: &str = "
    if redis.call('DEL', KEYS[1]) == 0 then
        return 0
    end
    redis.call(ARGV[2], KEYS[2], ARGV[1])
    return 1";

/// KEYS: locks. ARGV: ttl in ms, owner of each lock. Returns 1 or 0 for each lock.
const RENEW: &str = "
    local renewed = {}
    for i, key in ipairs(KEYS) do
        renewed[i] = redis.call('HEXISTS', key, ARGV[i + 1])
        if renewed[i] == 1 then
            redis.call('PEXPIRE', key, ARGV[1])
        end
    end
    return renewed";

/// The ttl of a latch. A latch of Redisson is a key by which a repeated `UNLOCK` returns the result of the first
/// `UNLOCK`.
const LATCH_TTL_MILLIS: u32 = 16_000;

/// A Java process with Redisson. The threads of a process share its id.
#[derive(Clone)]
pub(super) struct Redisson {
    client: Client,
    connection: MultiplexedConnection,
    id: Uuid,
    /// The ttl of all locks.
    lease: Duration,
}

/// A lock object, as one thread of the Java process uses it.
#[derive(Clone)]
pub(super) struct RLock {
    redisson: Redisson,
    name: String,
    /// The id of the process and the number of the thread. It is a lease id for redquorum.
    owner: String,
    /// Notified when a `lock` call has subscribed and was refused afterwards.
    asleep: Arc<Notify>,
}

/// The event before the successful attempt of a `lock` call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// No event: the first attempt, or the attempt after the subscription, succeeded.
    Free,
    /// A message on the channel of the lock.
    Message,
    /// The end of the ttl that the last refusal returned.
    Ttl,
}

impl Redisson {
    pub(super) async fn connect(server: &Server, lease: Duration) -> Self {
        let client = Client::open(server.url()).unwrap();
        let connection = client.get_multiplexed_async_connection().await.unwrap();
        Self { client, connection, id: Uuid::new_v4(), lease }
    }

    pub(super) fn lock(&self, name: &str, thread: u64) -> RLock {
        let owner = format!("{}:{thread}", self.id);
        RLock { redisson: self.clone(), name: name.to_owned(), owner, asleep: Arc::default() }
    }
}

impl RLock {
    pub(super) fn owner(&self) -> &str {
        &self.owner
    }

    /// Returns when a [`lock`](Self::lock) call of this object or of a clone sleeps.
    pub(super) async fn wait_until_asleep(&self) {
        self.asleep.notified().await;
    }

    /// Makes one attempt. `Err` is the remaining ttl of the holder.
    pub(super) async fn try_lock(&self) -> Result<(), Duration> {
        let left: Option<i64> = self.eval(LOCK, &[&self.name], &[&self.ttl_millis(), &self.owner]).await;
        left.map_or(Ok(()), |left| Err(u64::try_from(left).map_or(Duration::MAX, Duration::from_millis)))
    }

    /// Tries and subscribes. Tries again at each message and at the end of the returned ttl, and never polls.
    pub(super) async fn lock(&self) -> Wake {
        if self.try_lock().await.is_ok() {
            return Wake::Free;
        }
        let (mut channel, mut messages) = self.redisson.client.get_async_pubsub().await.unwrap().split();
        channel.subscribe(self.derived("redisson_lock__channel")).await.unwrap();
        let mut wake = Wake::Free;
        loop {
            let Err(left) = self.try_lock().await else { return wake };
            self.asleep.notify_one();
            wake = tokio::select! {
                message = messages.next() => {
                    assert_eq!(message.unwrap().get_payload::<String>().unwrap(), "0");
                    Wake::Message
                }
                () = tokio::time::sleep(left) => Wake::Ttl,
            };
        }
    }

    /// Removes one hold. Returns whether the hold was the last; `None` if the owner had no hold.
    pub(super) async fn unlock(&self) -> Option<bool> {
        let latch = format!("{}:{}", self.derived("redisson_unlock_latch"), Uuid::new_v4().simple());
        let keys = [&self.name, &self.derived("redisson_lock__channel"), &latch];
        let arguments = ["0", &self.ttl_millis(), &self.owner, "PUBLISH", &LATCH_TTL_MILLIS.to_string()];
        let unlocked = self.eval(UNLOCK, &keys.map(String::as_str), &arguments).await;
        let mut connection = self.redisson.connection.clone();
        cmd("DEL").arg(latch).exec_async(&mut connection).await.unwrap();
        unlocked
    }

    /// Deletes the lock of any owner. Returns whether the resource was locked.
    pub(super) async fn force_unlock(&self) -> bool {
        let keys = [&self.name, &self.derived("redisson_lock__channel")];
        self.eval(FORCE_UNLOCK, &keys.map(String::as_str), &["0", "PUBLISH"]).await
    }

    /// Renews the lock. Returns whether the owner had the lock.
    pub(super) async fn renew(&self) -> bool {
        let renewed: Vec<bool> = self.eval(RENEW, &[&self.name], &[&self.ttl_millis(), &self.owner]).await;
        renewed == [true]
    }

    /// Returns the ttl in milliseconds, as an argument of a script.
    fn ttl_millis(&self) -> String {
        self.redisson.lease.as_millis().to_string()
    }

    /// Returns the name of a key or channel that belongs to the lock.
    fn derived(&self, prefix: &str) -> String {
        if self.name.contains('{') {
            format!("{prefix}:{}", self.name)
        } else {
            format!("{prefix}:{{{}}}", self.name)
        }
    }

    async fn eval<T: FromRedisValue>(&self, script: &str, keys: &[&str], arguments: &[&str]) -> T {
        let mut connection = self.redisson.connection.clone();
        let mut eval = cmd("EVAL");
        eval.arg(script).arg(keys.len()).arg(keys).arg(arguments);
        eval.query_async(&mut connection).await.unwrap()
    }
}
