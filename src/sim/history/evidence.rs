//! The parts of a history that a violation points at.

use std::{fmt, time::Duration};

use super::event::AttemptId;
use crate::{sim::millis::Millis, values::FencingToken};

/// A lease, as its history tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The attempt that won it.
    pub attempt: AttemptId,
    /// Whose it is.
    pub process: usize,
    /// Its token.
    pub token: FencingToken,
    /// When the attempt began.
    pub began: Duration,
    /// When it was granted.
    pub granted: Duration,
    /// When it ended, if it did.
    pub ended: Option<Duration>,
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempt, process, token, began, granted, ended } = *self;
        write!(
            f,
            "{attempt} of process {process} (token {token}, begun at {} ms, held from ",
            Millis(began)
        )?;
        match ended {
            Some(ended) => write!(f, "{} to {} ms)", Millis(granted), Millis(ended)),
            None => write!(f, "{} ms on)", Millis(granted)),
        }
    }
}

/// An access to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Access {
    /// Whose.
    pub process: usize,
    /// Under which token, if any.
    pub token: Option<FencingToken>,
    /// When.
    pub at: Duration,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.token {
            Some(token) => write!(f, "process {} under token {token}", self.process)?,
            None => write!(f, "process {} without a token", self.process)?,
        }
        write!(f, " at {} ms", Millis(self.at))
    }
}
