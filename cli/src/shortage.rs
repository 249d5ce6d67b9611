//! That too few nodes vote: who is missing, and why. Pure.

use std::{
    fmt,
    mem::{Discriminant, discriminant},
    time::Duration,
};

use redquorum::{
    error::{Error, NodeError, NodeReplies, NodeReply, Refusal},
    inspection::Inspection,
};

use crate::counted::some_of;

/// Too few nodes vote for any lock to be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shortage {
    nodes: usize,
    needed: usize,
    /// What too few of them do.
    verb: &'static str,
    missing: Vec<Missing>,
}

/// A node that does not vote.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Missing {
    node: String,
    kind: Kind,
    why: String,
}

/// What has to change for it to be worth saying: neither how long something lasts, nor how a silent
/// node is silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Silent,
    Quarantined,
    Refused(Discriminant<Refusal>),
    Faulty(Discriminant<NodeError>),
}

impl Shortage {
    /// What an inspection tells of it; `None` if enough nodes vote, or if it failed for another
    /// reason.
    pub(crate) fn of_inspection(found: &Result<Inspection, Error>) -> Option<Self> {
        match found {
            Ok(found) => {
                let missing = found.nodes().filter_map(|node| match (node.holder(), node.abstention()) {
                    (Err(error), _) => Some(Missing::faulty(node.address(), error)),
                    (Ok(_), Some(refusal)) => Some(Missing::refusing(node.address(), refusal)),
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
            NodeReply::Refused(refusal) => Some(Missing::refusing(node, refusal)),
            NodeReply::Failed(error) => Some(Missing::faulty(node, error)),
            _ => None,
        });
        Self::of(replies.iter().count(), replies.needed(), "vote", missing.collect())
    }

    /// What came of connecting to each of these nodes, as far as it failed.
    pub(crate) fn of_connects(
        nodes: usize,
        needed: usize,
        failed: impl IntoIterator<Item = (String, String)>,
    ) -> Option<Self> {
        let silent = |(node, why)| Missing { node, kind: Kind::Silent, why };
        Self::of(nodes, needed, "answer", failed.into_iter().map(silent).collect())
    }

    fn of(nodes: usize, needed: usize, verb: &'static str, missing: Vec<Missing>) -> Option<Self> {
        (nodes.saturating_sub(missing.len()) < needed).then_some(Self { nodes, needed, verb, missing })
    }

    /// Whether the same nodes are missing for the same reasons.
    fn is_like(&self, other: &Self) -> bool {
        let kinds = |of: &Self| -> Vec<(String, Kind)> {
            of.missing.iter().map(|missing| (missing.node.clone(), missing.kind)).collect()
        };
        kinds(self) == kinds(other)
    }
}

impl Missing {
    fn refusing(node: &str, refusal: &Refusal) -> Self {
        let kind = match refusal {
            Refusal::Quarantined { remaining: Some(remaining), .. } => {
                return Self::quarantined(node, *remaining);
            }
            Refusal::Quarantined { remaining: None, .. } => Kind::Quarantined,
            refusal => Kind::Refused(discriminant(refusal)),
        };
        Self { node: node.to_owned(), kind, why: refusal.to_string() }
    }

    fn quarantined(node: &str, remaining: Duration) -> Self {
        let why = format!("in quarantine for {} s more", whole_seconds(remaining));
        Self { node: node.to_owned(), kind: Kind::Quarantined, why }
    }

    fn faulty(node: &str, error: &NodeError) -> Self {
        let is_silent = matches!(
            error,
            NodeError::Unreachable(_)
                | NodeError::TimedOut
                | NodeError::Unresponsive
                | NodeError::Overloaded
                | NodeError::Disconnected
        );
        let kind = if is_silent { Kind::Silent } else { Kind::Faulty(discriminant(error)) };
        Self { node: node.to_owned(), kind, why: error.to_string() }
    }
}

fn whole_seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}

impl fmt::Display for Shortage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { nodes, needed, verb, missing } = self;
        let voting = nodes.saturating_sub(missing.len());
        write!(f, "no quorum: {}, {needed} needed", some_of(voting, *nodes, verb))?;
        for Missing { node, why, .. } in missing {
            write!(f, "; {node}: {why}")?;
        }
        Ok(())
    }
}

/// Says once that there is a shortage, again whenever it has become another one, and once that it
/// is over.
#[derive(Debug, Default)]
pub(crate) struct Teller {
    told: Option<Shortage>,
}

impl Teller {
    /// What to say of what is seen now, if anything.
    pub(crate) fn hear(&mut self, seen: Option<Shortage>) -> Option<String> {
        let message = match (&self.told, &seen) {
            (None, None) => None,
            (Some(told), Some(seen)) if told.is_like(seen) => None,
            (_, Some(seen)) => Some(seen.to_string()),
            (Some(told), None) => Some(format!("there is a quorum again: enough nodes {}", told.verb)),
        };
        self.told = seen;
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shortage(missing: &[Missing]) -> Option<Shortage> {
        Shortage::of(5, 4, "vote", missing.to_vec())
    }

    fn quarantined(node: &str, millis: u64) -> Missing {
        Missing::quarantined(node, Duration::from_millis(millis))
    }

    #[test]
    fn a_shortage_says_who_is_missing_and_why_and_for_how_long() {
        let refused = Missing::faulty("a:1", &NodeError::Unreachable("Connection refused".into()));
        let short = shortage(&[refused, quarantined("b:2", 57_100)]).unwrap();
        assert_eq!(
            short.to_string(),
            "no quorum: 3 of 5 nodes vote, 4 needed; a:1: unreachable: Connection refused; \
             b:2: in quarantine for 58 s more"
        );
        assert_eq!(shortage(&[quarantined("b:2", 1)]), None, "four of five are enough");
    }

    #[test]
    fn a_shortage_is_told_once_a_change_and_its_end_once() {
        let mut teller = Teller::default();
        let silent = |error: &NodeError| Missing::faulty("a:1", error);
        assert_eq!(teller.hear(None), None, "nothing is said of a quorum that was never missing");
        let first = [silent(&NodeError::TimedOut), quarantined("b:2", 9000)];
        assert!(teller.hear(shortage(&first)).unwrap().starts_with("no quorum: 3 of 5"));
        let later = [silent(&NodeError::Unresponsive), quarantined("b:2", 7000)];
        assert_eq!(teller.hear(shortage(&later)), None, "less time, and silent in another way");
        let more = [silent(&NodeError::Unresponsive), quarantined("b:2", 7000), quarantined("c:3", 9000)];
        assert!(teller.hear(shortage(&more)).unwrap().starts_with("no quorum: 2 of 5"));
        let other = [silent(&NodeError::OutOfMemory), quarantined("b:2", 7000), quarantined("c:3", 9000)];
        assert!(teller.hear(shortage(&other)).unwrap().contains("(OOM)"));
        assert_eq!(teller.hear(None).unwrap(), "there is a quorum again: enough nodes vote");
        assert_eq!(teller.hear(None), None);
    }
}
