//! How a waiter paces its attempts.

use std::time::Duration;

use crate::{algorithm::queueing::Pacing, config::quorum::check_longest, error::ConfigError};

/// How a waiter paces the attempts for which no node has woken it.
///
/// The queue node wakes a waiter at its turn; the first two in the queue also hear of releases, and
/// come when the holder's ttl ends. What is set here bounds what happens when a wake is missed, and
/// how fast failures are tried again. An entry in the queue is kept for twice the longest poll
/// after its waiter last asked, and at most `max_ttl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    first_poll: Duration,
    longest_poll: Duration,
    floor: Duration,
}

impl RetryPolicy {
    const LEAST: Duration = Duration::from_millis(1);

    const LONGEST: Duration = Duration::from_secs(24 * 3600);

    /// The fallback polls: the first after `first` (default 500 ms), each next one after twice as
    /// long, up to `longest` (default 5 s, at most a day), all with a jitter of 50 %. Shorter costs
    /// every waiter more commands; longer delays the waiters whose wakes are lost.
    #[must_use]
    pub fn polls(mut self, first: Duration, longest: Duration) -> Self {
        self.first_poll = first;
        self.longest_poll = longest;
        self
    }

    /// The least delay between attempts that fail (default 5 ms, at most a day). It doubles with
    /// every failure, up to the fallback poll.
    #[must_use]
    pub fn floor(mut self, floor: Duration) -> Self {
        self.floor = floor;
        self
    }

    pub(crate) fn check(self) -> Result<Pacing, ConfigError> {
        let Self { first_poll, longest_poll, floor } = self;
        let least = Self::LEAST;
        if floor < least {
            return Err(ConfigError::RetryFloor { given: floor, least });
        }
        check_longest("retry floor", floor, Self::LONGEST)?;
        check_longest("fallback poll", longest_poll, Self::LONGEST)?;
        if first_poll < least || longest_poll < first_poll {
            return Err(ConfigError::Retry { first: first_poll, most: longest_poll, least });
        }
        Ok(Pacing { first_poll, longest_poll, floor })
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            first_poll: Duration::from_millis(500),
            longest_poll: Duration::from_secs(5),
            floor: Duration::from_millis(5),
        }
    }
}
