//! What every request says about the quorum that it comes from.

use std::{fmt, sync::Arc, time::Duration};

/// The terms under which a quorum's clients use a node; they travel with every call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub(crate) fingerprint: Fingerprint,
    pub(crate) guard: GuardMode,
    /// The longest ttl, and the life of a tombstone.
    pub(crate) max_ttl: Duration,
    /// The life of a fencing counter after its last use; at least `max_ttl`.
    pub(crate) counter_ttl: Duration,
}

/// When a node's votes are checked against a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GuardMode {
    /// Never: the node is trusted to remember every vote.
    Off,
}

/// A quorum's configuration as one readable line: what all of its clients must agree on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(Arc<str>);

impl Fingerprint {
    pub(crate) fn new(text: &str) -> Self {
        Self(text.into())
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
