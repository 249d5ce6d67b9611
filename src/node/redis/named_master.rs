//! A master that another server names.

use super::endpoint::Endpoint;
use crate::values::NodeError;

/// The master that a Sentinel or a server of a cluster names.
#[derive(Debug)]
pub(super) struct NamedMaster {
    pub(super) endpoint: Endpoint,
    /// The server that names the master, such as `the Sentinel 10.0.0.1:26379`.
    pub(super) named_by: String,
}

impl NamedMaster {
    /// Adds the address of the master to an error. The url has only the addresses of the servers that name the master,
    /// and these servers may name an address that this client cannot reach.
    pub(super) fn explain(&self, error: NodeError) -> NodeError {
        let explained = |why: &str| {
            let (master, named_by) = (self.endpoint.address(), &self.named_by);
            format!("the master {master}, which {named_by} names: {why}").into()
        };
        match error {
            NodeError::Unreachable(why) => NodeError::Unreachable(explained(&why)),
            NodeError::NotExecuted(why) => NodeError::NotExecuted(explained(&why)),
            NodeError::DialTimedOut(why) => NodeError::DialTimedOut(explained(&why)),
            NodeError::NoAuth(why) => NodeError::NoAuth(explained(&why)),
            NodeError::NoPermission(why) => NodeError::NoPermission(explained(&why)),
            NodeError::Tls(why) => NodeError::Tls(explained(&why)),
            NodeError::Protocol(why) => NodeError::Protocol(explained(&why)),
            NodeError::Server(why) => NodeError::Server(explained(&why)),
            NodeError::TimedOut => NodeError::Unreachable(explained(&error.to_string())),
            NodeError::Disconnected => NodeError::NotExecuted(explained(&error.to_string())),
            other => other,
        }
    }
}
