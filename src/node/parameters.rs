//! The quorum parameters: what every request says about the quorum that it comes from.

use std::{fmt, sync::Arc, time::Duration};

/// The parameters of a quorum that its nodes have to know; they travel with every call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuorumParameters {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) guard: RestartGuard,
    /// The longest ttl, and the ttl of a tombstone.
    pub(crate) max_ttl: Duration,
    /// The ttl of a fencing counter after its last use; at least `max_ttl`.
    pub(crate) counter_ttl: Duration,
    pub(crate) quarantine: QuarantineParameters,
    /// For how long newcomers let the waiters go first for what was unlocked: about as long as a
    /// wake may be on its way to the first in the queue, and its locks to the nodes.
    pub(crate) hand_over: Duration,
    /// The incarnation of the server that the connection has registered in; `None` before, and
    /// where no node is asked.
    pub(crate) incarnation: Option<Incarnation>,
}

/// Tells one incarnation of a server's data from another: its `run_id`, new with every start, and
/// its replication id, new with every promotion. `<run_id>/<replication id>`, or any text that
/// tells the incarnations of a node in memory apart.
pub(crate) type Incarnation = Arc<str>;

/// How long a node that may have forgotten votes stays out of them. By its own clock, so longer
/// than what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QuarantineParameters {
    /// Until every lease is over that it may have forgotten.
    pub(crate) lasts: Duration,
    /// Until every attempt is decided that it may have voted in: then it counts for renewals again.
    pub(crate) renewals_after: Duration,
}

/// When a node is asked whether it may have forgotten votes.
///
/// A node that restarted without its last votes, was flushed, or is a promoted replica would let a
/// second lease in beside one that it has forgotten. So it must not vote until every lease that it
/// may have forgotten is over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RestartGuard {
    /// On every connection (the default), and whenever its metadata is missing or not the one that
    /// the connection knows. What it does not see: a server that becomes a replica of *its own*
    /// replica and a master again under a connection that asks nothing meanwhile, and a proxy that
    /// goes on with a promoted replica on the same connection.
    #[default]
    PerConnection,
    /// In every call: for such proxies. The server spends some microseconds more on each call.
    PerVote,
    /// Never. For servers that keep every vote: standalone, with `appendonly yes`,
    /// `appendfsync always` and `aof-load-truncated no`. A replica that is promoted, or a restored
    /// backup, breaks exclusion unseen.
    Off,
}

/// A quorum's configuration as one readable line: what all of its clients must agree on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(Arc<str>);

impl Fingerprint {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// What a node shows between two configurations: nobody's quorum.
    pub(crate) fn closed_for(&self) -> Self {
        Self(format!("closed for {self}").into())
    }

    /// In which fields this client differs from a node.
    pub(crate) fn beside(&self, theirs: &Self) -> String {
        let fields = |of: &'_ Self| -> Vec<String> { of.0.split(' ').map(str::to_owned).collect() };
        let (our_fields, their_fields) = (fields(self), fields(theirs));
        let without = |fields: &[String], others: &[String]| -> Vec<String> {
            fields.iter().filter(|field| !others.contains(field)).cloned().collect()
        };
        let (ours, others) = (without(&our_fields, &their_fields), without(&their_fields, &our_fields));
        // A line with other fields is of another version, or of a quorum that is being changed.
        if our_fields.len() != their_fields.len() || others.is_empty() {
            return format!("it has ({theirs}), this client ({self})");
        }
        format!("it has {}, this client {}", others.join(" and "), ours.join(" and "))
    }

    /// The line as nodes store it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_is_named_and_nothing_else() {
        let of = Fingerprint::new;
        let beside = |ours, theirs| of(ours).beside(&of(theirs));
        assert_eq!(
            beside("name=a nodes=3 needed=2 max_ttl=60000ms", "name=a nodes=3 needed=2 max_ttl=30000ms"),
            "it has max_ttl=30000ms, this client max_ttl=60000ms"
        );
        assert_eq!(
            beside("name=a nodes=3 needed=2", "name=b nodes=5 needed=2"),
            "it has name=b and nodes=5, this client name=a and nodes=3"
        );
        assert_eq!(
            beside("name=a nodes=3", "closed for name=a nodes=3"),
            "it has (closed for name=a nodes=3), this client (name=a nodes=3)"
        );
    }
}
