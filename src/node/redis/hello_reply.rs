//! The reply to `HELLO`.

use redis::Value;

use crate::values::NodeError;

/// The reply to `HELLO`, from which the client learns the mode and the role of the server before any write. `HELLO`
/// costs one round trip on every connection, and needs only the permissions of the handshake.
#[derive(Debug, Default)]
pub(super) struct HelloReply {
    mode: Option<String>,
    role: Option<String>,
}

impl HelloReply {
    pub(super) fn read(reply: &Value) -> Self {
        let Value::Map(fields) = reply else { return Self::default() };
        let field = |name: &[u8]| {
            let (_, value) = fields.iter().find(|(field, _)| text(field) == Some(name))?;
            Some(String::from_utf8_lossy(text(value)?).into_owned())
        };
        Self { mode: field(b"mode"), role: field(b"role") }
    }

    /// Returns the error of a server whose mode excludes it as a node. A reply without a mode, which a proxy may send,
    /// counts as the reply of a standalone server.
    pub(super) fn refusal(&self) -> Option<NodeError> {
        match self.mode.as_deref() {
            Some("cluster") => Some(NodeError::ClusterMode),
            Some("sentinel") => Some(NodeError::SentinelMode),
            _ => None,
        }
    }

    /// Returns the error of a server that is no part of a cluster.
    pub(super) fn refusal_of_cluster_node(&self) -> Option<NodeError> {
        match self.mode.as_deref() {
            Some("cluster") => None,
            Some("sentinel") => Some(NodeError::SentinelMode),
            _ => Some(NodeError::StandaloneMode),
        }
    }

    pub(super) fn is_replica(&self) -> bool {
        matches!(self.role.as_deref(), Some("replica" | "slave"))
    }
}

fn text(value: &Value) -> Option<&[u8]> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello_reply(fields: &[(&str, &str)]) -> HelloReply {
        let bulk = |text: &str| Value::BulkString(text.into());
        HelloReply::read(&Value::Map(fields.iter().map(|(name, value)| (bulk(name), bulk(value))).collect()))
    }

    #[test]
    fn only_cluster_and_sentinel_modes_are_refused() {
        assert_eq!(
            hello_reply(&[("mode", "cluster"), ("role", "master")]).refusal(),
            Some(NodeError::ClusterMode)
        );
        assert_eq!(
            hello_reply(&[("server", "redis"), ("mode", "sentinel")]).refusal(),
            Some(NodeError::SentinelMode)
        );
        for mode in ["standalone", "some day"] {
            assert_eq!(hello_reply(&[("mode", mode)]).refusal(), None);
        }
        assert_eq!(hello_reply(&[]).refusal(), None);
        assert_eq!(HelloReply::read(&Value::Okay).refusal(), None);
    }

    #[test]
    fn a_node_in_a_cluster_needs_the_mode_of_a_cluster() {
        let refusal = |fields: &[(&str, &str)]| hello_reply(fields).refusal_of_cluster_node();
        assert_eq!(refusal(&[("mode", "cluster"), ("role", "replica")]), None);
        assert_eq!(refusal(&[("mode", "sentinel")]), Some(NodeError::SentinelMode));
        assert_eq!(refusal(&[("mode", "standalone")]), Some(NodeError::StandaloneMode));
        assert_eq!(refusal(&[]), Some(NodeError::StandaloneMode));
    }

    #[test]
    fn a_replica_is_recognised_by_its_role() {
        assert!(hello_reply(&[("role", "replica")]).is_replica());
        assert!(!hello_reply(&[("role", "master")]).is_replica());
        assert!(!hello_reply(&[]).is_replica());
    }
}
