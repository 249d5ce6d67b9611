//! A Sentinel process, which monitors a master and promotes replicas.

use redis::{Client, Cmd, FromRedisValue, RedisResult};

use super::eventually::eventually;
use super::reaper::Reaper;
use super::server::Server;
use super::server_process::{PATIENCE, ServerProcess, port::Port};

/// A Sentinel that promotes a replica without the vote of a second Sentinel, some seconds after the master stops.
#[derive(Debug)]
pub struct Sentinel {
    _process: ServerProcess,
    port: Port,
    _reaper: Reaper,
}

impl Sentinel {
    /// Starts a Sentinel for a master that already has replicas, and returns when the Sentinel has found one.
    pub async fn watching(name: &str, master: &Server) -> Self {
        let (port, reaper) = (Port::reserve(), Reaper::start(false));
        let directory = reaper.directory().join("sentinel");
        std::fs::create_dir_all(&directory).expect("the directory of the Sentinel is writable");
        let file = directory.join("sentinel.conf");
        let text = format!(
            "port {}\nbind 127.0.0.1\nsentinel monitor {name} 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds {name} 1000\nsentinel failover-timeout {name} 10000\n",
            port.number(),
            master.port(),
        );
        std::fs::write(&file, text).expect("the file of the Sentinel can be written");
        let arguments = vec![file.display().to_string(), "--sentinel".to_owned()];
        let sentinel = Self { _process: ServerProcess::start(directory, arguments), port, _reaper: reaper };
        eventually(PATIENCE, "the Sentinel has found a replica", async || {
            let found =
                sentinel.try_query::<redis::Value>(redis::cmd("SENTINEL").arg("REPLICAS").arg(name)).await;
            matches!(found, Ok(redis::Value::Array(replicas)) if !replicas.is_empty())
        })
        .await;
        sentinel
    }

    /// Returns the port of the Sentinel.
    pub fn port(&self) -> u16 {
        self.port.number()
    }

    /// Returns the port of the server that the Sentinel names as the master.
    pub async fn master(&self, name: &str) -> u16 {
        let (_, port): (String, u16) =
            self.try_query(redis::cmd("SENTINEL").arg("GET-MASTER-ADDR-BY-NAME").arg(name)).await.unwrap();
        port
    }

    /// Makes the Sentinel promote a replica although the master is healthy.
    pub async fn fail_over(&self, name: &str) {
        eventually(PATIENCE, "the Sentinel has found a replica to promote", async || {
            self.try_query::<()>(redis::cmd("SENTINEL").arg("FAILOVER").arg(name)).await.is_ok()
        })
        .await;
    }

    async fn try_query<T: FromRedisValue>(&self, cmd: &Cmd) -> RedisResult<T> {
        let client = Client::open(format!("redis://127.0.0.1:{}", self.port()))?;
        cmd.query_async(&mut client.get_multiplexed_async_connection().await?).await
    }
}
