//! The Redis Cluster of a node, as the master of the node's hash slot describes the cluster.

use std::time::Duration;

use futures::future::join_all;
use redquorum::{
    __command::NodeConnector,
    unstable_redis::redis::{Value, cmd, from_redis_value},
};

use super::info::setting;
use crate::{
    connect::{Disconnected, NodeConnection, Reply},
    doctor::facts::{ClusterFacts, Replica},
};

/// Queries the master of the slot, and connects to each of its replicas. `hash_tag` is that of the node.
pub(super) async fn query(
    connection: &mut NodeConnection,
    node: &NodeConnector,
    hash_tag: &str,
    timeout: Duration,
) -> Result<ClusterFacts, Disconnected> {
    let slot: Reply<u32> = connection.query(cmd("CLUSTER").arg("KEYSLOT").arg(hash_tag)).await?;
    let nodes: Reply<String> = connection.query(cmd("CLUSTER").arg("NODES")).await?;
    let ranges: Reply<Vec<Value>> = connection.query(cmd("CLUSTER").arg("SLOTS")).await?;
    let replicas = match (&slot, ranges) {
        (Ok(slot), Ok(ranges)) => {
            let replicas = announced_replicas(&ranges, *slot).into_iter();
            let replicas = replicas.map(|address| connect_to_replica(node, address, timeout));
            Ok(join_all(replicas).await)
        }
        (Err(text), _) => Err(text.clone()),
        (_, Err(text)) => Err(text),
    };
    Ok(ClusterFacts {
        requires_coverage: setting(connection, "cluster-require-full-coverage").await?,
        node_timeout: setting(connection, "cluster-node-timeout").await?,
        is_moving: slot.and_then(|slot| Ok(is_moving(&nodes?, slot))),
        replicas,
    })
}

async fn connect_to_replica(
    node: &NodeConnector,
    address: Option<(String, u16)>,
    timeout: Duration,
) -> Replica {
    let connector = address.as_ref().and_then(|(host, port)| node.server_of_cluster(host, *port));
    let unreachable = match connector {
        Some(connector) => NodeConnection::open(&connector, timeout).await.err(),
        None => None,
    };
    Replica { address, unreachable: unreachable.map(|disconnected| disconnected.reason) }
}

/// Whether the slot moves to another server, according to `CLUSTER NODES`. The line of the server itself has the moving
/// slots, such as `[5496->-id]`.
fn is_moving(nodes: &str, slot: u32) -> bool {
    let own = nodes.lines().filter(|line| line.contains("myself"));
    own.flat_map(str::split_whitespace).any(|word| word.starts_with(&format!("[{slot}->-")))
}

/// Returns the addresses of the replicas of a slot, according to `CLUSTER SLOTS`: one entry for each range of slots, with
/// the first slot, the last slot, the master, and the replicas that have not failed. These addresses are those that
/// redirections name to clients. An address is `None` if its host is unknown, or the host of the server that answers.
fn announced_replicas(ranges: &[Value], slot: u32) -> Vec<Option<(String, u16)>> {
    for range in ranges {
        let Value::Array(entries) = range else { continue };
        let [Value::Int(first), Value::Int(last), _master, replicas @ ..] = &**entries else { continue };
        if (*first..=*last).contains(&i64::from(slot)) {
            return replicas.iter().map(address).collect();
        }
    }
    Vec::new()
}

/// Returns the address in an entry of `CLUSTER SLOTS`: the host, the port, the id, and further names.
fn address(entry: &Value) -> Option<(String, u16)> {
    let Value::Array(fields) = entry else { return None };
    let [host, Value::Int(port), ..] = &**fields else { return None };
    let host: String = from_redis_value(host.clone()).ok()?;
    let is_known = !host.is_empty() && host != "?";
    is_known.then_some((host, u16::try_from(*port).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moving_slot_is_in_the_line_of_the_server_itself() {
        let nodes = "a 127.0.0.1:1@2 master - 0 1 3 connected [5496->-b]\n\
                     b 127.0.0.1:3@4 myself,master - 0 1 3 connected 0-16383 [7->-a] [8-<-a]\n";
        for (slot, expected) in [(7, true), (8, false), (5496, false), (70, false)] {
            assert_eq!(is_moving(nodes, slot), expected, "{slot}");
        }
    }

    #[test]
    fn the_replicas_of_a_slot_have_the_addresses_that_the_cluster_names() {
        let host = |host: &str| Value::BulkString(host.as_bytes().to_vec());
        let server = |host: Value, port| Value::Array(vec![host, Value::Int(port), Value::Nil]);
        let range = |first, last, servers: Vec<Value>| {
            Value::Array([vec![Value::Int(first), Value::Int(last)], servers].concat())
        };
        let ranges = [
            range(0, 99, vec![server(host("a"), 1), server(host("b"), 2)]),
            range(
                100,
                199,
                vec![
                    server(host("c"), 3),
                    server(host("d"), 4),
                    server(Value::Nil, 5),
                    server(host("?"), 6),
                    server(host(""), 7),
                ],
            ),
            range(200, 300, vec![server(host("e"), 8)]),
        ];
        let known = |host: &str, port| Some((host.to_owned(), port));
        assert_eq!(announced_replicas(&ranges, 99), [known("b", 2)]);
        assert_eq!(announced_replicas(&ranges, 100), [known("d", 4), None, None, None]);
        assert_eq!(announced_replicas(&ranges, 300), []);
        assert_eq!(announced_replicas(&ranges, 301), []);
    }
}
