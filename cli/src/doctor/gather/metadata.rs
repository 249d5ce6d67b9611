//! The node metadata and the quarantine of a node. `init` uses these queries before its question, too.

use std::time::Duration;

use redquorum::unstable_redis::redis::cmd;

use crate::{
    connect::{Disconnected, NodeConnection, Reply},
    doctor::facts::NodeMetadata,
};

pub(super) async fn query(
    connection: &mut NodeConnection,
) -> Result<Reply<Option<NodeMetadata>>, Disconnected> {
    let fields =
        cmd("HMGET").arg(connection.key("redquorum:node")).arg("incarnation").arg("fingerprint").to_owned();
    let reply: Reply<(Option<String>, Option<String>)> = connection.query(&fields).await?;
    Ok(reply.map(|(incarnation, fingerprint)| {
        let incarnation = incarnation.unwrap_or_default();
        fingerprint.map(|fingerprint| NodeMetadata { incarnation, fingerprint })
    }))
}

/// Whether the node has given no vote yet: the node has no metadata, or is in its first quarantine.
pub(crate) async fn is_new(connection: &mut NodeConnection) -> Result<Reply<bool>, Disconnected> {
    let fields = cmd("HMGET").arg(connection.key("redquorum:node")).arg("fingerprint").arg("new").to_owned();
    let reply: Reply<(Option<String>, Option<String>)> = connection.query(&fields).await?;
    Ok(reply.map(|(fingerprint, is_new)| fingerprint.is_none() || is_new.as_deref() == Some("1")))
}

/// Returns the remaining time of the node's quarantine; `None` without a quarantine.
pub(crate) async fn quarantine(
    connection: &mut NodeConnection,
) -> Result<Reply<Option<Duration>>, Disconnected> {
    let reply: Reply<i64> = connection.query(cmd("PTTL").arg(connection.key("redquorum:quarantine"))).await?;
    // A negative number stands for a missing key.
    Ok(reply.map(|rest| u64::try_from(rest).ok().map(Duration::from_millis)))
}
