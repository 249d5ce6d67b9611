//! Leading, for threads.

use std::time::Duration;

use crate::{
    FencingToken, Unlocked,
    blocking::{Lease, runtime::Runtime},
    error::{LeaseLost, ProclaimError, UnlockError},
};

/// A won election, for as long as it is not lost and this lives; see [`crate::Leadership`].
///
/// It is renewed by the quorum's thread. The leader deposes itself by its own clock, before another
/// can be elected; a program that acts as leader asks [`ensure`](Self::ensure) first, and gives the
/// [`term`](Self::term) to what it writes to. There is no `run`, as nothing could stop its closure
/// at a loss.
///
/// Dropping it resigns without waiting.
#[derive(Debug)]
#[must_use = "dropping a leadership resigns at once: bind it to a name, `_` is none"]
pub struct Leadership {
    // Before the runtime, because fields are dropped in this order: resigning needs it.
    leadership: crate::Leadership,
    runtime: Runtime,
}

impl Leadership {
    pub(super) fn new(leadership: crate::Leadership, runtime: Runtime) -> Self {
        Self { leadership, runtime }
    }

    /// The term: a fencing token, larger than that of every leader before, as long as the nodes
    /// remember their counters.
    #[must_use]
    pub fn term(&self) -> FencingToken {
        self.leadership.term()
    }

    /// Whether this leads at this instant. Once false, it stays false. It reads the clock and does
    /// not block.
    #[must_use]
    pub fn is_leader(&self) -> bool {
        self.ensure().is_ok()
    }

    /// Asks where it has to lead. It reads the clock and does not block.
    ///
    /// # Errors
    ///
    /// [`LeaseLost`] once it does not lead any more, with the reason.
    pub fn ensure(&self) -> Result<(), LeaseLost> {
        self.runtime.look(|| self.leadership.ensure())
    }

    /// How long this still certainly leads, unless it is renewed: zero from its end on.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        self.runtime.look(|| self.leadership.remaining())
    }

    /// The lease behind it, to be looked at by other threads. It does not keep it.
    #[must_use]
    pub fn lease(&self) -> Lease {
        Lease::new(self.leadership.lease(), self.runtime.clone())
    }

    /// Blocks until the leadership is over, which is before anybody else can be elected.
    #[must_use]
    pub fn lost(&self) -> LeaseLost {
        self.runtime.wait(self.leadership.lost())
    }

    /// Blocks until the leadership is over, at most for `wait`: `None` if it is not.
    #[must_use]
    pub fn lost_within(&self, wait: Duration) -> Option<LeaseLost> {
        self.runtime.wait_for(wait, self.leadership.lost())
    }

    /// Changes the value that those see who observe the election. Returns when a quorum of nodes
    /// keeps it.
    ///
    /// # Errors
    ///
    /// As [`crate::Leadership::proclaim`].
    pub fn proclaim(&self, value: impl AsRef<[u8]>) -> Result<(), ProclaimError> {
        self.runtime.wait(self.leadership.proclaim(value))
    }

    /// Gives the leadership up, so that another is elected within some round trips. Returns at the
    /// quorum.
    ///
    /// # Errors
    ///
    /// As [`crate::Leadership::resign`].
    pub fn resign(self) -> Result<Unlocked, UnlockError> {
        self.runtime.wait(self.leadership.resign())
    }
}
