//! The leader of an election, as observers see it.

use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{node::Proclamation, values::FencingToken};

/// The leader of an election, from [`Election::leader`](crate::election::Election::leader) and
/// [`Election::observe`](crate::election::Election::observe).
///
/// The leader was elected, and a quorum of nodes had its lock when they answered. The leader may have deposed itself up
/// to a ttl before, because nodes keep a lock for longer than the leader relies on it, most of all if they executed
/// renewals whose answers were lost. When a program reads this value, another candidate may lead: the
/// [`term`](Self::term) distinguishes the acts of this leader from those of a later leader.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    value: Arc<[u8]>,
    term: FencingToken,
    since: Duration,
}

impl Leader {
    pub(super) fn new(said: &Proclamation) -> Self {
        Self { value: Arc::clone(&said.value), term: FencingToken::new(said.term), since: said.since }
    }

    /// The value that the leader proclaimed, as bytes.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// The value that the leader proclaimed, as text; `U+FFFD` stands for what is not UTF-8.
    #[must_use]
    pub fn value_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.value)
    }

    /// The fencing token of the leadership: larger than that of every earlier leader, as long as the nodes remember
    /// their counters.
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.term
    }

    /// The time of the election by the clock of the *leader*, in whole milliseconds: for people, not to be compared.
    #[must_use]
    pub fn since(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH.checked_add(self.since).unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

impl fmt::Debug for Leader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Leader")
            .field("value", &self.value_str())
            .field("term", &self.term)
            .field("since", &self.since())
            .finish()
    }
}
