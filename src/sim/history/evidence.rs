//! The evidence of a violation.

use std::{fmt, time::Duration};

use super::event::AttemptId;
use crate::{sim::millis::Millis, values::FencingToken};

/// A lease of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Grant {
    /// The attempt that won the lease.
    pub attempt: AttemptId,
    /// The process with the lease.
    pub process: usize,
    /// The token of the lease.
    pub token: FencingToken,
    /// The start of the attempt.
    pub began: Duration,
    /// The time of the grant.
    pub granted: Duration,
    /// The end of the lease, if it has ended.
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
    /// The process of the access.
    pub process: usize,
    /// The token, if the access is fenced.
    pub token: Option<FencingToken>,
    /// The time of the access.
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
