//! The holder of a lock on each node that answers, for the error of `inspect` without a quorum.

use std::{collections::HashMap, time::Duration};

use futures::future::join_all;
use redquorum::{__command::NodeConnector, unstable_redis::redis::cmd};

use crate::{
    connect::NodeConnection,
    duration,
    failure::{ANSWERS, Failure},
    name,
};

/// The time limit of each answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// The field that stands for the readers in the key of a shared lock.
const READERS: &[u8] = b"redquorum:shared";

/// Returns the failure with the holder on each node that answers as evidence. The nodes are asked on plain connections,
/// because a client of the quorum cannot inspect without a quorum.
pub(crate) async fn with_holders(failure: Failure, nodes: &[NodeConnector], resource: &[u8]) -> Failure {
    let evidence = failure.evidence.into_iter().map(async |evidence| {
        let address = evidence.strip_suffix(ANSWERS).and_then(|rest| rest.strip_suffix(": "));
        let node = nodes.iter().find(|node| Some(node.address()) == address);
        match node {
            Some(node) => match holder(node, resource).await {
                Some(holder) => format!("{}: {holder}", node.address()),
                None => evidence,
            },
            None => evidence,
        }
    });
    Failure { evidence: join_all(evidence).await, ..failure }
}

/// Returns the holder on a node; `None` if the node does not answer.
async fn holder(node: &NodeConnector, resource: &[u8]) -> Option<String> {
    let mut connection = NodeConnection::open(node, ANSWER_TIMEOUT).await.ok()?;
    let key = connection.key(resource);
    let fields: HashMap<Vec<u8>, Vec<u8>> = connection.query(cmd("HGETALL").arg(&key)).await.ok()?.ok()?;
    let remaining: i64 = connection.query(cmd("PTTL").arg(&key)).await.ok()?.ok()?;
    Some(shown(&fields, remaining))
}

fn shown(fields: &HashMap<Vec<u8>, Vec<u8>>, remaining: i64) -> String {
    let mut owners = fields.keys();
    let owner = match (owners.next(), owners.next()) {
        (None, _) => return "free".to_owned(),
        (Some(owner), None) if owner == READERS => "readers".to_owned(),
        (Some(owner), None) => name::shown(owner),
        _ => "a lock of another kind".to_owned(),
    };
    // A negative number stands for a key without an end.
    match u64::try_from(remaining) {
        Ok(left) => format!("held by {owner} for {}", duration::shown(Duration::from_millis(left))),
        Err(_) => format!("held by {owner} without an end"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_on_a_node_is_named_with_the_rest_of_its_ttl() {
        let fields =
            |names: &[&str]| names.iter().map(|name| (name.as_bytes().to_vec(), b"1".to_vec())).collect();
        assert_eq!(shown(&fields(&[]), -2), "free");
        assert_eq!(shown(&fields(&["web-1:7/uuid:1"]), 24_800), "held by web-1:7/uuid:1 for 24.8s");
        assert_eq!(shown(&fields(&["redquorum:shared"]), 1000), "held by readers for 1.0s");
        assert_eq!(shown(&fields(&["a", "b"]), -1), "held by a lock of another kind without an end");
    }
}
