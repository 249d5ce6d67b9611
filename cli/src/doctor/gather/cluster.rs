//! The Redis Cluster of a node, as the master of the node's hash slot describes the cluster. `CLUSTER NODES` is the only
//! command of clusters that a user of locks may call.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use futures::future::join_all;
use redquorum::{__command::NodeConnector, unstable_redis::redis::cmd};

use super::info::{self, setting};
use crate::{
    connect::{Disconnected, NodeConnection, Reply},
    doctor::facts::{ClusterFacts, ClusterSettings, Replica, ReplicaFacts, Seed},
};

/// The number of hash slots of every cluster.
const SLOTS: u16 = 16_384;

/// Queries the master of the slot, and connects to each of its replicas. `hash_tag` is that of the node.
pub(super) async fn query(
    connection: &mut NodeConnection,
    node: &NodeConnector,
    hash_tag: &str,
    timeout: Duration,
) -> Result<ClusterFacts, Disconnected> {
    let nodes: Reply<String> = connection.query(cmd("CLUSTER").arg("NODES")).await?;
    let endpoint_type = setting(connection, "cluster-preferred-endpoint-type").await?;
    let endpoint_type = endpoint_type.unwrap_or_else(|_| "ip".to_owned());
    let replicas = match &nodes {
        Ok(nodes) => {
            let replicas = announced_replicas(nodes, &endpoint_type).into_iter();
            let replicas = replicas.map(|address| query_replica(node, address, timeout));
            Ok(join_all(replicas).await)
        }
        Err(text) => Err(text.clone()),
    };
    Ok(ClusterFacts {
        settings: settings(connection).await?,
        is_moving: nodes.as_ref().map(|nodes| is_moving(nodes, slot_of(hash_tag))).map_err(Clone::clone),
        host: nodes.as_deref().ok().and_then(own_host),
        members: nodes.as_deref().map(members).map_err(|text| (*text).clone()),
        replicas,
    })
}

/// Asks each seed of a node for the servers of its cluster. Returns no seed for a node that is no cluster.
pub(super) async fn query_seeds(node: &NodeConnector, timeout: Duration) -> Vec<Seed> {
    let seeds = node.seeds().into_iter().map(async |seed| {
        let members = async {
            let mut connection = NodeConnection::open(&seed, timeout).await?;
            let nodes: Reply<String> = connection.query(cmd("CLUSTER").arg("NODES")).await?;
            Ok(nodes.map(|nodes| members(&nodes)))
        };
        Seed { address: seed.address().to_owned(), members: members.await }
    });
    join_all(seeds).await
}

async fn settings(connection: &mut NodeConnection) -> Result<ClusterSettings, Disconnected> {
    Ok(ClusterSettings {
        requires_coverage: setting(connection, "cluster-require-full-coverage").await?,
        node_timeout: setting(connection, "cluster-node-timeout").await?,
    })
}

async fn query_replica(node: &NodeConnector, address: Option<(String, u16)>, timeout: Duration) -> Replica {
    let connector = address.as_ref().and_then(|(host, port)| node.server_of_cluster(host, *port));
    let Some(connector) = connector else { return Replica { address, server: None } };
    let server = async {
        let mut connection = NodeConnection::open(&connector, timeout).await?;
        let info = info::query(&mut connection).await?;
        let max_lag = info::max_lag(&mut connection).await?;
        Ok(ReplicaFacts { info, max_lag, settings: settings(&mut connection).await? })
    };
    Replica { address, server: Some(server.await) }
}

/// Returns the ids of all servers in `CLUSTER NODES`. The id is the first word of a line.
fn members(nodes: &str) -> BTreeSet<String> {
    nodes.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

/// Whether the slot moves to another server, according to `CLUSTER NODES`. The line of the server itself has the moving
/// slots, such as `[5496->-id]`.
fn is_moving(nodes: &str, slot: u16) -> bool {
    let own = own_line(nodes).unwrap_or_default();
    own.split_whitespace().any(|word| word.starts_with(&format!("[{slot}->-")))
}

/// Returns the line of the server that answers.
fn own_line(nodes: &str) -> Option<&str> {
    nodes.lines().find(|line| flags(line).any(|flag| flag == "myself"))
}

/// Returns the flags in a line, such as `master` and `fail`.
fn flags(line: &str) -> impl Iterator<Item = &str> {
    line.split_whitespace().nth(2).unwrap_or_default().split(',')
}

/// Returns the IP address by which the server that answers is known to its cluster.
fn own_host(nodes: &str) -> Option<IpAddr> {
    let (host, _) = host_and_port(own_line(nodes)?)?;
    host.parse().ok()
}

/// Returns the host and the port of the server in a line. The second word is `host:port@bus-port,name`.
fn host_and_port(line: &str) -> Option<(&str, u16)> {
    let address = line.split_whitespace().nth(1)?.split(['@', ',']).next()?;
    let (host, port) = address.rsplit_once(':')?;
    Some((host, port.parse().ok()?))
}

/// Returns the addresses of the replicas of the server that answers, according to `CLUSTER NODES`, without replicas that
/// have failed. These addresses are those that redirections name to clients, by `cluster-preferred-endpoint-type`. An
/// address is `None` if its host is unknown, or the host of the server that answers.
fn announced_replicas(nodes: &str, endpoint_type: &str) -> Vec<Option<(String, u16)>> {
    let own_id = own_line(nodes).and_then(|line| line.split_whitespace().next()).unwrap_or_default();
    let is_replica = |line: &&str| {
        line.split_whitespace().nth(3) == Some(own_id)
            && !flags(line).any(|flag| ["fail", "noaddr", "handshake"].contains(&flag))
    };
    let announced = |line: &str| {
        let (ip, port) = host_and_port(line)?;
        let host = match endpoint_type {
            "hostname" => line.split_whitespace().nth(1)?.split(',').nth(1).unwrap_or_default(),
            "unknown-endpoint" => "",
            _ => ip,
        };
        (!host.is_empty() && host != "?").then(|| (host.to_owned(), port))
    };
    nodes.lines().filter(is_replica).map(announced).collect()
}

/// Returns the hash slot of a tag in braces: the CRC16 (XMODEM) of the text in the braces, modulo the number of slots.
fn slot_of(hash_tag: &str) -> u16 {
    let text = hash_tag.trim_start_matches('{').trim_end_matches('}');
    let crc = text.bytes().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(byte) << 8), |crc, _| {
            if crc & 0x8000 == 0 { crc << 1 } else { (crc << 1) ^ 0x1021 }
        })
    });
    crc % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of Redis 7.0: hostnames follow the bus port.
    const NODES: &str = "a 10.0.0.1:1@2,one.example master - 0 1 3 connected 200-300 [5496->-b]\n\
         b 10.0.0.2:3@4, myself,master - 0 1 3 connected 0-199 [7->-a] [8-<-a]\n\
         c 10.0.0.3:5@6,three.example slave b 0 1 3 connected\n\
         d 2001:db8::4:7@8 slave b 0 1 3 connected\n\
         e 10.0.0.5:9@10, slave,fail b 0 1 3 disconnected\n\
         f :0@0 slave,noaddr b 0 1 3 disconnected\n\
         g 10.0.0.7:11@12 slave a 0 1 3 connected\n";

    #[test]
    fn a_moving_slot_is_in_the_line_of_the_server_itself() {
        for (slot, expected) in [(7, true), (8, false), (5496, false), (70, false)] {
            assert_eq!(is_moving(NODES, slot), expected, "{slot}");
        }
    }

    /// The first slot is the example in the specification of Redis Cluster. The tests of the library use the second.
    #[test]
    fn the_slot_of_a_tag_is_that_of_the_server() {
        for (tag, slot) in [("{123456789}", 12_739), ("{redquorum}", 5496), ("{}", 0)] {
            assert_eq!(slot_of(tag), slot, "{tag}");
        }
    }

    #[test]
    fn the_replicas_of_a_server_have_the_addresses_that_the_cluster_names() {
        let known = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(announced_replicas(NODES, "ip"), [known("10.0.0.3", 5), known("2001:db8::4", 7)]);
        assert_eq!(announced_replicas(NODES, "hostname"), [known("three.example", 5), None]);
        assert_eq!(announced_replicas(NODES, "unknown-endpoint"), [None, None]);
        assert_eq!(announced_replicas("a :1@2 myself,master - 0 0 1 connected 0-16383\n", "ip"), []);
    }

    #[test]
    fn a_server_is_known_by_its_own_line() {
        assert_eq!(own_host(NODES), Some(IpAddr::from([10, 0, 0, 2])));
        assert_eq!(own_host("a :1@2 myself,master - 0 0 1 connected 0-16383\n"), None);
        assert_eq!(members(NODES), ["a", "b", "c", "d", "e", "f", "g"].map(str::to_owned).into());
    }
}
