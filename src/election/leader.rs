//! The leader, as others see it.

use std::{
    borrow::Cow,
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use crate::{node::Proclamation, values::FencingToken};

/// The leader, as [`Election::leader`](crate::Election::leader) and
/// [`Election::observe`](crate::Election::observe) show it.
///
/// It was elected, and a quorum of nodes had its lock when they were asked. It may have deposed
/// itself before that, by up to a ttl: nodes keep a lock longer than its owner counts on it, most
/// of all where they executed renewals whose answers were lost. By the time this is read another
/// may lead; what it does is told from what a later leader does by the [`term`](Self::term).
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

    /// What it proclaims, as bytes.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        &self.value
    }

    /// What it proclaims, as text; what is not UTF-8 is replaced by `U+FFFD`.
    #[must_use]
    pub fn value_str(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.value)
    }

    /// The fencing token of its leadership: larger than that of every leader before it, as long as
    /// the nodes remember their counters.
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.term
    }

    /// When it was elected, by *its* time of day, in whole milliseconds: to be shown to people, not
    /// to be compared.
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
