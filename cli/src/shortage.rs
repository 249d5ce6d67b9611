//! A shortage of votes: the nodes that do not vote, and the reasons. Pure. `wait_report` reports shortages while a
//! command connects or waits for a lock.

use std::{
    fmt,
    mem::{Discriminant, discriminant},
    time::Duration,
};

use redquorum::{
    error::{Error, NodeError, NodeReplies, NodeReply, Refusal},
    inspection::Inspection,
};

use crate::{
    counted::some_of,
    failure::{Failure, NOT_WAITED_FOR},
};

/// The beginning of the report of most commands.
pub(crate) const NO_QUORUM: &str = "no quorum";

/// The beginning of the report of `init`, which needs every node.
pub(crate) const NOT_EVERY_NODE: &str = "`init` needs every node";

/// A state in which too few nodes vote for any lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    nodes: usize,
    needed: usize,
    /// The beginning of the report: [`NO_QUORUM`] or [`NOT_EVERY_NODE`].
    summary: &'static str,
    /// The verb of the report for the nodes that are not missing: "vote" or "answer".
    verb: &'static str,
    missing: Vec<MissingNode>,
}

/// A node that does not vote.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MissingNode {
    node: String,
    reason: Reason,
    text: String,
}

/// The reason why a node does not vote.
///
/// Each change of a reason is reported. Therefore the remaining time of a quarantine and the error of a silent node
/// are no part of the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    Silent,
    Quarantined,
    Refused(Discriminant<Refusal>),
    Faulty(Discriminant<NodeError>),
}

impl Shortage {
    /// Returns the shortage that an inspection shows. `None` if enough nodes vote, or if the inspection
    /// failed for another reason.
    pub(crate) fn of_inspection(found: &Result<Inspection, Error>) -> Option<Self> {
        match found {
            Ok(found) => {
                let missing = found.nodes().filter_map(|node| match (node.holder(), node.abstention()) {
                    (Err(error), _) => Some(MissingNode::faulty(node.address(), error)),
                    (Ok(_), Some(refusal)) => Some(MissingNode::refusing(node.address(), refusal)),
                    (Ok(_), None) => None,
                });
                Self::of(found.nodes().count(), found.needed(), "vote", missing.collect())
            }
            Err(Error::NoQuorum(error)) => Self::of_replies(error.node_replies()),
            Err(_) => None,
        }
    }

    fn of_replies(replies: &NodeReplies) -> Option<Self> {
        let missing = replies.iter().filter_map(|(node, reply)| match reply {
            NodeReply::Refused(refusal) => Some(MissingNode::refusing(node, refusal)),
            NodeReply::Failed(error) => Some(MissingNode::faulty(node, error)),
            _ => None,
        });
        Self::of(replies.iter().count(), replies.needed(), "vote", missing.collect())
    }

    /// Returns the shortage after an attempt to connect to each node, from the failed nodes and their
    /// errors. `summary` begins the report.
    pub(crate) fn of_connects(
        nodes: usize,
        needed: usize,
        summary: &'static str,
        failed: impl IntoIterator<Item = (String, String)>,
    ) -> Option<Self> {
        let silent = |(node, text)| MissingNode { node, reason: Reason::Silent, text };
        let shortage = Self::of(nodes, needed, "answer", failed.into_iter().map(silent).collect())?;
        Some(Self { summary, ..shortage })
    }

    fn of(nodes: usize, needed: usize, verb: &'static str, missing: Vec<MissingNode>) -> Option<Self> {
        (nodes.saturating_sub(missing.len()) < needed).then_some(Self {
            nodes,
            needed,
            summary: NO_QUORUM,
            verb,
            missing,
        })
    }

    /// Whether the same nodes are missing for the same reasons.
    fn has_same_reasons_as(&self, other: &Self) -> bool {
        let reasons = |of: &Self| -> Vec<(String, Reason)> {
            of.missing.iter().map(|missing| (missing.node.clone(), missing.reason)).collect()
        };
        reasons(self) == reasons(other)
    }
}

impl MissingNode {
    fn refusing(node: &str, refusal: &Refusal) -> Self {
        let reason = match refusal {
            Refusal::Quarantined { remaining: Some(remaining), .. } => {
                return Self::quarantined(node, *remaining);
            }
            Refusal::Quarantined { remaining: None, .. } => Reason::Quarantined,
            refusal => Reason::Refused(discriminant(refusal)),
        };
        Self { node: node.to_owned(), reason, text: refusal.to_string() }
    }

    fn quarantined(node: &str, remaining: Duration) -> Self {
        let text = format!("in quarantine for {} s more", whole_seconds(remaining));
        Self { node: node.to_owned(), reason: Reason::Quarantined, text }
    }

    fn faulty(node: &str, error: &NodeError) -> Self {
        let is_silent = matches!(
            error,
            NodeError::Unreachable(_)
                | NodeError::NotExecuted(_)
                | NodeError::DialTimedOut(_)
                | NodeError::TimedOut
                | NodeError::Unresponsive
                | NodeError::Overloaded
                | NodeError::Disconnected
        );
        let reason = if is_silent { Reason::Silent } else { Reason::Faulty(discriminant(error)) };
        Self { node: node.to_owned(), reason, text: error.to_string() }
    }
}

fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, needed, summary, verb, missing } = self;
        let voting = nodes.saturating_sub(missing.len());
        write!(f, "{summary}: {}, {needed} needed", some_of(voting, *nodes, verb))?;
        for MissingNode { node, text, .. } in missing {
            write!(f, "; {node}: {text}")?;
        }
        // All nodes can be in quarantine in a new quorum, or after a restart, failover or flush of all nodes. Only in a
        // new quorum is `init` safe.
        if missing.len() == *nodes && missing.iter().all(|missing| missing.reason == Reason::Quarantined) {
            write!(
                f,
                "; `redquorum init` makes the nodes vote at once, but use it only if no client has ever locked here; \
                 after a restart, a failover or a flush, wait"
            )?;
        }
        Ok(())
    }
}

/// The reporter of a shortage: one message at the beginning, one after each change of the missing nodes or their
/// reasons, and one at the end.
#[derive(Debug, Default)]
pub(crate) struct ShortageReporter {
    reported: Option<Shortage>,
}

impl ShortageReporter {
    /// Marks the evidence of a failure that the last report has: the missing nodes with the same reason, even if times
    /// in it differ. The message of the failure has the remaining time of quarantines.
    pub(crate) fn mark_reported(&self, failure: Failure) -> Failure {
        let reported: &[MissingNode] = self.reported.as_ref().map_or(&[], |shortage| &shortage.missing);
        let is_reported = |line: &&String| {
            reported.iter().any(|MissingNode { node, reason, text }| {
                let Some(shown) = line.strip_prefix(&format!("{node}: ")) else { return false };
                let is_quarantined = *reason == Reason::Quarantined && shown.starts_with("in quarantine");
                let without_limit =
                    |text: &str| text.split(" within ").next() == shown.split(" within ").next();
                is_quarantined || without_limit(text) || shown == NOT_WAITED_FOR
            })
        };
        let reported = failure.evidence.iter().filter(is_reported).cloned().collect();
        Failure { reported, ..failure }
    }

    /// Records the present shortage, or none, and returns the message that is due, if any.
    pub(crate) fn report(&mut self, present: Option<Shortage>) -> Option<String> {
        let message = match (&self.reported, &present) {
            (None, None) => None,
            (Some(reported), Some(present)) if reported.has_same_reasons_as(present) => None,
            (_, Some(present)) => Some(present.to_string()),
            (Some(reported), None) => {
                Some(format!("there is a quorum again: enough nodes {}", reported.verb))
            }
        };
        self.reported = present;
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortage(missing: &[MissingNode]) -> Option<Shortage> {
        Shortage::of(5, 4, "vote", missing.to_vec())
    }

    fn quarantined(node: &str, millis: u64) -> MissingNode {
        MissingNode::quarantined(node, Duration::from_millis(millis))
    }

    #[test]
    fn a_shortage_names_the_missing_nodes_with_reasons_and_times() {
        let refused = MissingNode::faulty("a:1", &NodeError::Unreachable("Connection refused".into()));
        let short = shortage(&[refused, quarantined("b:2", 57_100)]).unwrap();
        assert_eq!(
            short.to_string(),
            "no quorum: 3 of 5 nodes vote, 4 needed; a:1: unreachable: Connection refused; \
             b:2: in quarantine for 58 s more"
        );
        assert_eq!(shortage(&[quarantined("b:2", 1)]), None, "four of five nodes are enough");
        let all: Vec<MissingNode> = (0..5).map(|node| quarantined(&format!("a:{node}"), 1)).collect();
        let short = shortage(&all).unwrap().to_string();
        assert!(short.contains("only if no client has ever locked here"), "{short}");
    }

    #[test]
    fn the_evidence_of_reported_nodes_is_marked() {
        let mut reporter = ShortageReporter::default();
        let silent = MissingNode::faulty("a:1", &NodeError::Unreachable("no answer within 1s".into()));
        reporter.report(shortage(&[silent, quarantined("b:2", 9000), quarantined("c:3", 9000)]));
        let evidence = [
            "a:1: unreachable: no answer within 500ms",
            "b:2: in quarantine for 7.5s: it may have lost votes",
            "c:3: was not waited for",
        ];
        let other = ["a:12: unreachable: no answer within 1s", "b:2: unreachable", "d:4: was not waited for"];
        let lines = evidence.into_iter().chain(other).map(str::to_owned).collect();
        let failure = Failure { evidence: lines, ..Failure::new(crate::exit::Exit::NoQuorum, "no quorum") };
        assert_eq!(reporter.mark_reported(failure.clone()).reported, evidence);
        reporter.report(None);
        assert!(reporter.mark_reported(failure).reported.is_empty(), "the shortage was over");
    }

    #[test]
    fn a_shortage_its_changes_and_its_end_are_reported_once() {
        let mut reporter = ShortageReporter::default();
        let silent = |error: &NodeError| MissingNode::faulty("a:1", error);
        assert_eq!(reporter.report(None), None, "a quorum without a shortage is not reported");
        let first = [silent(&NodeError::TimedOut), quarantined("b:2", 9000)];
        assert!(reporter.report(shortage(&first)).unwrap().starts_with("no quorum: 3 of 5"));
        let later = [silent(&NodeError::Unresponsive), quarantined("b:2", 7000)];
        assert_eq!(
            reporter.report(shortage(&later)),
            None,
            "a shorter time or another error of a silent node is no change"
        );
        let more = [silent(&NodeError::Unresponsive), quarantined("b:2", 7000), quarantined("c:3", 9000)];
        assert!(reporter.report(shortage(&more)).unwrap().starts_with("no quorum: 2 of 5"));
        let other = [silent(&NodeError::OutOfMemory), quarantined("b:2", 7000), quarantined("c:3", 9000)];
        assert!(reporter.report(shortage(&other)).unwrap().contains("(OOM)"));
        assert_eq!(reporter.report(None).unwrap(), "there is a quorum again: enough nodes vote");
        assert_eq!(reporter.report(None), None);
    }
}
