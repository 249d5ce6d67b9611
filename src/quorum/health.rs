//! The health of a quorum.

use std::fmt;

use crate::{
    client::broadcast::{collect_with_times, send_inspect},
    error::ClosedReason,
    lock::{inspection, node_inspection::NodeInspection},
    node::{Answer, InspectAnswer, names},
    process::Forked,
    quorum::Quorum,
    values::{NodeError, Resource},
};

/// The health of a quorum, from [`Quorum::health`]: the nodes that vote, and the reasons of the nodes that do not vote.
///
/// The report describes the nodes at the time of their answers. Lock calls do not depend on the report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    nodes: Vec<NodeInspection>,
    needed: usize,
}

impl Quorum {
    /// Returns for every node whether the node would vote for a lock of this client now, for the health check of a
    /// service or for a display.
    ///
    /// The call waits until all nodes have answered, but for at most a node timeout. The call never fails: in the
    /// report, a node without an answer has an error. If the client no longer works, every node has the error
    /// [`NodeError::Closed`], with the reason. If the client ends during the call, the nodes without an answer have
    /// this error.
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
    /// Dropping the future has no effect on the nodes.
    pub async fn health(&self) -> Health {
        let context = &self.client().context;
        let settings = &context.settings;
        let start = context.now();
        let inspecting = async {
            let deadline = start + settings.node_timeout_for(settings.ttl);
            let fanout = send_inspect(context, &Resource::internal(names::HEALTH.as_bytes()), deadline);
            collect_with_times(context, fanout, deadline).await
        };
        let closed = |reason| (Answer::Error(NodeError::Closed(reason)), None);
        let all_closed = |reason| context.nodes.iter().map(|_| closed(reason)).collect();
        let mut answers: Vec<_> = match context.end_reason() {
            Some(reason) => all_closed(reason),
            None => {
                let inspected = context.unless_forked(inspecting).await;
                inspected.unwrap_or_else(|Forked| all_closed(ClosedReason::Forked))
            }
        };
        // A node of another quorum also answers an inspection.
        let ours = &settings.parameters.fingerprint;
        for (answer, _) in &mut answers {
            if let Answer::Inspected(InspectAnswer { fingerprint: Some(theirs), .. }) = answer
                && theirs != ours
            {
                *answer = Answer::Error(NodeError::WrongQuorum(theirs.as_str().into()));
            }
        }
        // The end of the client, and not the node, is the reason of an error at that time.
        if let Some(reason) = context.end_reason() {
            let errors = answers.iter_mut().filter(|(answer, _)| matches!(answer, Answer::Error(_)));
            errors.for_each(|answer| *answer = closed(reason));
        }
        Health { nodes: inspection::by_node(context, start, answers), needed: settings.electorate.needed() }
    }
}

impl Health {
    /// Whether enough nodes vote to grant a lock.
    #[must_use]
    pub fn has_quorum(&self) -> bool {
        self.voting() >= self.needed
    }

    /// Returns the number of nodes that vote.
    #[must_use]
    pub fn voting(&self) -> usize {
        self.nodes.iter().filter(|node| votes(node)).count()
    }

    /// Returns the number of votes that a lock needs.
    #[must_use]
    pub fn needed(&self) -> usize {
        self.needed
    }

    /// Returns the answer of each node, in the order in which the nodes were named. A node that does not vote has an
    /// [error](NodeInspection::holder) or an [abstention](NodeInspection::abstention).
    pub fn nodes(&self) -> impl Iterator<Item = &NodeInspection> {
        self.nodes.iter()
    }
}

fn votes(node: &NodeInspection) -> bool {
    node.abstention().is_none() && node.holder().is_ok()
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} nodes vote, {} have to", self.voting(), self.nodes.len(), self.needed)?;
        for node in &self.nodes {
            match (node.holder(), node.abstention()) {
                (Err(error), _) => write!(f, "; {}: {error}", node.address())?,
                (_, Some(abstention)) => write!(f, "; {}: {abstention}", node.address())?,
                _ => {}
            }
        }
        Ok(())
    }
}
