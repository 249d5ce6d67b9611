//! A Redis Cluster, in which a test can interrupt the replication of a master.

use std::time::Duration;

use futures::future::join_all;
use redis::{Cmd, FromRedisValue, RedisResult};

use super::{
    cluster::Cluster,
    eventually::eventually,
    kind::Kind,
    options::ServerOptions,
    proxy::{Direction, Proxy},
    server::Server,
    server_process::{PATIENCE, port::BUS_PORT_OFFSET},
};

/// The number of shards: masters that each have a third of the slots, and one replica.
const SHARDS: usize = 3;

/// The number of slots of every Redis Cluster.
const SLOTS: usize = 16_384;

/// A Redis Cluster of three masters and three replicas, which run as processes.
///
/// Each master announces the port of a proxy, by which its replica reaches it. A test can thus discard the replication of
/// one master. Clients of the test and the other servers still reach this master directly.
#[derive(Debug)]
pub struct RedisCluster {
    /// The masters of all shards, and then their replicas.
    servers: Cluster,
    /// The proxies between each master and its replica.
    replication: Vec<Proxy>,
}

impl RedisCluster {
    /// Starts the servers with this `cluster-node-timeout`, and returns when the cluster serves all slots, and each
    /// replica has the data of its master.
    pub async fn start(node_timeout: Duration) -> Self {
        let options = ServerOptions::default()
            .config("cluster-enabled", "yes")
            .config("cluster-node-timeout", &node_timeout.as_millis().to_string())
            // With a delay of zero, a full synchronization begins at once.
            .config("repl-diskless-sync-delay", "0");
        let servers = Cluster::start_as(Kind::Processes, 2 * SHARDS, options).await;
        let replication = join_all(servers.some(0..SHARDS).iter().map(Proxy::before)).await;
        let cluster = Self { servers, replication };
        cluster.assign_slots().await;
        cluster.introduce().await;
        cluster.assign_replicas().await;
        cluster
    }

    /// Returns the number of the shard that has the slot of a key.
    pub async fn shard_of(&self, key: &str) -> usize {
        let slot: usize = self.master(0).query(redis::cmd("CLUSTER").arg("KEYSLOT").arg(key)).await;
        shard_of_slot(slot)
    }

    /// Returns the server that is the master of a shard from the start of the cluster to the first failover.
    pub fn master(&self, shard: usize) -> &Server {
        self.servers.server(shard)
    }

    /// Returns the server that is the replica of a shard from the start of the cluster to the first failover.
    pub fn replica(&self, shard: usize) -> &Server {
        self.servers.server(SHARDS + shard)
    }

    /// Discards what the master of a shard sends to its replica from now on. Their connection stays open, as in a network
    /// that loses each packet.
    pub fn discard_replication(&self, shard: usize) {
        self.replication[shard].cut(Direction::Replies);
    }

    /// Runs a command as a client of the cluster does: on the server that serves the slot of its key.
    ///
    /// # Errors
    ///
    /// If no server serves the slot, such as between the death of a master and the end of the failover.
    pub async fn try_query<T: FromRedisValue>(&self, cmd: &Cmd) -> RedisResult<T> {
        let mut result = self.master(0).try_query(cmd).await;
        for server in &self.servers.servers()[1..] {
            if result.is_ok() {
                break;
            }
            result = server.try_query(cmd).await;
        }
        result
    }

    /// Gives each master its slots and its announced port, and each server a number by which conflicts of masters end
    /// before they begin.
    async fn assign_slots(&self) {
        for (number, server) in self.servers.servers().iter().enumerate() {
            server.command(&["CLUSTER", "SET-CONFIG-EPOCH", &(number + 1).to_string()]).await;
        }
        for (shard, proxy) in self.replication.iter().enumerate() {
            let master = self.master(shard);
            master.command(&["CONFIG", "SET", "cluster-announce-port", &proxy.port().to_string()]).await;
            // Not `ADDSLOTSRANGE`, which Redis 6.2 does not have.
            let mut add = redis::cmd("CLUSTER");
            add.arg("ADDSLOTS")
                .arg((0..SLOTS).filter(|slot| shard_of_slot(*slot) == shard).collect::<Vec<_>>());
            master.query::<()>(&add).await;
        }
    }

    /// Introduces the servers to each other, and waits until each server knows all of them.
    async fn introduce(&self) {
        for (number, server) in self.servers.servers().iter().enumerate() {
            for (other, peer) in self.servers.servers().iter().enumerate().skip(number + 1) {
                let port = self.replication.get(other).map_or_else(|| peer.port(), Proxy::port).to_string();
                let bus_port = (peer.port() + BUS_PORT_OFFSET).to_string();
                server.command(&["CLUSTER", "MEET", "127.0.0.1", &port, &bus_port]).await;
            }
        }
        for server in self.servers.servers() {
            eventually(PATIENCE, "the server knows all servers of its cluster", async || {
                let nodes = nodes(server).await;
                nodes.len() == 2 * SHARDS && nodes.iter().all(|node| !node.contains("handshake"))
            })
            .await;
        }
    }

    /// Gives each master its replica, and waits until all servers know the replicas, serve the cluster, and have the data
    /// of their masters.
    async fn assign_replicas(&self) {
        for (shard, proxy) in self.replication.iter().enumerate() {
            let (master, replica) = (self.master(shard), self.replica(shard));
            let id: String = master.query(redis::cmd("CLUSTER").arg("MYID")).await;
            replica.command(&["CLUSTER", "REPLICATE", &id]).await;
            eventually(PATIENCE, "the replica has the data of its master, through the proxy", async || {
                let info = replica.info("replication").await;
                info.contains("master_link_status:up")
                    && info.contains(&format!("master_port:{}\r", proxy.port()))
            })
            .await;
        }
        for server in self.servers.servers() {
            eventually(PATIENCE, "the server knows the replicas and serves the cluster", async || {
                let state: String = server.query(redis::cmd("CLUSTER").arg("INFO")).await;
                let replicas = nodes(server).await.iter().filter(|node| node.contains("slave")).count();
                state.contains("cluster_state:ok") && replicas == SHARDS
            })
            .await;
        }
    }
}

fn shard_of_slot(slot: usize) -> usize {
    slot * SHARDS / SLOTS
}

/// Returns one line for each server that this server knows.
async fn nodes(server: &Server) -> Vec<String> {
    let nodes: String = server.query(redis::cmd("CLUSTER").arg("NODES")).await;
    nodes.lines().map(str::to_owned).collect()
}
