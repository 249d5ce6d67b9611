//! An election, for threads.

use std::time::Duration;

use crate::{
    Leader, LockOptions,
    blocking::{Leadership, Observation, runtime::Runtime},
    error::LockError,
};

/// An election, from [`Quorum::election`](super::Quorum::election): to campaign in it, to ask who
/// leads, and to observe; see [`crate::Election`].
///
/// It is a description, cheap to clone, and may be used again and by several threads at once: each
/// campaign is a candidate of its own.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use redquorum::blocking::Quorum;
///
/// let quorum = Quorum::in_memory(5)?;
/// let election = quorum.election("scheduler").value("host-7");
/// let leadership = election.campaign()?; // waits while another leads
/// for _job in 0..3 {
///     leadership.ensure()?; // deposed? then campaign again
/// }
/// leadership.resign()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "an election does nothing until a candidate campaigns or somebody observes"]
pub struct Election {
    election: crate::Election,
    runtime: Runtime,
}

impl Election {
    pub(super) fn new(election: crate::Election, runtime: Runtime) -> Self {
        Self { election, runtime }
    }

    fn map(self, set: impl FnOnce(crate::Election) -> crate::Election) -> Self {
        Self { election: set(self.election), runtime: self.runtime }
    }

    /// As [`crate::Election::value`].
    pub fn value(self, value: impl AsRef<[u8]>) -> Self {
        self.map(|election| election.value(value))
    }

    /// As [`crate::Election::options`].
    pub fn options(self, options: LockOptions) -> Self {
        self.map(|election| election.options(options))
    }

    /// As [`LockOptions::ttl`].
    pub fn ttl(self, ttl: Duration) -> Self {
        self.map(|election| election.ttl(ttl))
    }

    /// Waits until this candidate leads and a quorum of nodes shows its value.
    ///
    /// # Errors
    ///
    /// As [`crate::Election::campaign`]; [`LockError::Closed`] after a shutdown, by another thread
    /// too.
    pub fn campaign(&self) -> Result<Leadership, LockError> {
        self.runtime.wait(self.election.campaign()).map(|leadership| self.leading(leadership))
    }

    /// Makes one attempt: `None` if another leads, or holds the lock for some other reason.
    ///
    /// # Errors
    ///
    /// As [`crate::Election::try_campaign`].
    pub fn try_campaign(&self) -> Result<Option<Leadership>, LockError> {
        let leadership = self.runtime.wait(self.election.try_campaign())?;
        Ok(leadership.map(|leadership| self.leading(leadership)))
    }

    /// Asks the nodes who leads: `None` if nobody does; see [`crate::Election::leader`].
    ///
    /// # Errors
    ///
    /// As [`crate::Election::leader`].
    pub fn leader(&self) -> Result<Option<Leader>, LockError> {
        self.runtime.wait(self.election.leader())
    }

    /// The leaders from now on: the present one, if there is one, and then every change of leader
    /// or value that is seen.
    ///
    /// # Errors
    ///
    /// As [`crate::Election::observe`].
    pub fn observe(&self) -> Result<Observation, LockError> {
        let observation = self.runtime.look(|| self.election.observe())?;
        Ok(Observation::new(observation, self.runtime.clone()))
    }

    fn leading(&self, leadership: crate::Leadership) -> Leadership {
        Leadership::new(leadership, self.runtime.clone())
    }
}
