//! The leader of an election, as queries and observers return it.

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
/// When the nodes answered, a quorum of nodes had the lock of this leader. The leader may have deposed itself up to a
/// ttl before, because nodes keep the lock for longer than the validity. The difference is largest if the answers to
/// renewals were lost. When a program reads this value, another candidate may lead. By the [`term`](Self::term), a
/// store distinguishes the writes of this leader from the writes of a later leader.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    value: Arc<[u8]>,
    term: FencingToken,
    since: Duration,
}

impl Leader {
    pub(super) fn new(proclamation: &Proclamation) -> Self {
        Self {
            value: Arc::clone(&proclamation.value),
            term: FencingToken::new(proclamation.term),
            since: proclamation.since,
        }
    }

    /// Returns the value that the leader proclaimed, as bytes.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// Returns the value that the leader proclaimed, as text, with `U+FFFD` for bytes that are not UTF-8.
    #[must_use]
    pub fn value_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.value)
    }

    /// Returns the fencing token of the leadership: larger than the token of every earlier leader, as long as the nodes
    /// remember their counters.
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.term
    }

    /// Returns the time of the election by the clock of the *leader*, in whole milliseconds. The time is for display.
    /// The times of different leaders are not comparable, because their clocks differ.
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
