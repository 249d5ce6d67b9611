//! Whether the nodes of a quorum vote.

use std::fmt;

use crate::{
    client::asking::{ask, hear_with_times},
    lock::{
        inspection::{self, NodeHolder},
        node_inspection::NodeInspection,
    },
    quorum::Quorum,
    values::Resource,
};

/// Whether the nodes of a quorum vote, from [`Quorum::health`].
///
/// It was so when the nodes answered. A lock that follows asks them anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    nodes: Vec<NodeInspection>,
    needed: usize,
}

impl Quorum {
    /// Asks every node whether it would vote for a lock of this client now: for a service that is
    /// asked for its health, and for people.
    ///
    /// It waits until all nodes have answered, at most a node timeout. It never fails: a node that
    /// does not answer is a part of the answer. After a shutdown no node does.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let quorum = redquorum::Quorum::in_memory(5)?;
    /// let health = quorum.health().await;
    /// assert!(health.has_quorum(), "{health}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancel safety
    ///
    /// It changes nothing.
    pub async fn health(&self) -> Health {
        let environment = &self.client().environment;
        let settings = &environment.settings;
        let start = environment.now();
        let deadline = start + settings.node_timeout_for(settings.ttl);
        let asked = ask(environment, &Resource::internal(*b"redquorum:health"), deadline);
        let heard = hear_with_times(environment, asked, deadline).await;
        Health { nodes: inspection::by_node(environment, start, heard), needed: settings.electorate.needed() }
    }
}

impl Health {
    /// Whether enough nodes vote for a lock to be had.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.voting() >= self.needed
    }

    /// How many nodes vote.
    #[must_use]
    pub fn voting(&self) -> usize {
        self.nodes.iter().filter(|node| votes(node)).count()
    }

    /// How many nodes have to vote for a lock.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// What each node said, in the order in which the nodes were given: why one does not vote is its
    /// [holder](NodeInspection::holder), if that is unknown, or its
    /// [abstention](NodeInspection::abstention).
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInspection> {
        self.nodes.iter()
    }
}

fn votes(node: &NodeInspection) -> bool {
    node.abstention().is_none() && !matches!(node.holder(), NodeHolder::Unknown(_))
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} nodes vote, {} have to", self.voting(), self.nodes.len(), self.needed)?;
        for node in &self.nodes {
            match (node.holder(), node.abstention()) {
                (NodeHolder::Unknown(error), _) => write!(f, "; {}: {error}", node.address())?,
                (_, Some(abstention)) => write!(f, "; {}: {abstention}", node.address())?,
                _ => {}
            }
        }
        Ok(())
    }
}
