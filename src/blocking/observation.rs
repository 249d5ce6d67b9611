//! Following the leaders of an election, for threads.

use std::time::Duration;

use crate::{Leader, blocking::runtime::Runtime};

/// The leaders of an election, as they are seen: the present one, if there is one, and then every
/// change of leader or value; see [`crate::Observation`].
///
/// It is an iterator that blocks until there is something new, and ends when the quorum is shut
/// down. Dropping it unsubscribes.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # use redquorum::blocking::Quorum;
/// # let quorum = Quorum::in_memory(3)?;
/// let election = quorum.election("scheduler").value("host-7");
/// let leadership = election.campaign()?;
///
/// let mut leaders = election.observe()?;
/// assert_eq!(leaders.next().unwrap().value_str(), "host-7");
/// leadership.proclaim("host-7, draining")?;
/// assert_eq!(leaders.next().unwrap().value_str(), "host-7, draining");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "nothing is observed unless it is iterated over"]
pub struct Observation {
    observation: crate::Observation,
    runtime: Runtime,
}

impl Observation {
    pub(super) fn new(observation: crate::Observation, runtime: Runtime) -> Self {
        Self { observation, runtime }
    }

    /// The next leader or value, if one is seen within `wait`. `None` if nothing changed, or if the
    /// quorum was shut down.
    pub fn next_within(&mut self, wait: Duration) -> Option<Leader> {
        self.runtime.wait_for(wait, self.observation.next()).flatten()
    }
}

impl Iterator for Observation {
    type Item = Leader;

    fn next(&mut self) -> Option<Leader> {
        self.runtime.wait(self.observation.next())
    }
}
