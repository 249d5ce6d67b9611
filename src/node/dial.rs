//! The steps of a dial, and the time limit of each step.

use std::{pin::pin, time::Duration};

use futures::future::{BoxFuture, Either, select};

use crate::{
    clock::{Clock, Instant},
    values::NodeError,
};

/// A step of a dial that ends with an answer of another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DialStep {
    Lookup,
    Connect,
    /// The handshake of TLS, with the change of the url for a port without TLS.
    Tls {
        advice: &'static str,
    },
    Login,
    /// The query of a Sentinel for the master.
    Query,
    /// The question to a server of a cluster which server is the master of the slot.
    SlotMaster,
    Registration,
    /// All steps, of a transport that does not show them.
    All,
}

/// The limit of the time of a dial.
///
/// Each step has a limit of its own, so that a dial that makes progress goes on: a server that is busy with the dials
/// of other clients answers late, and its work is in vain if a client gives up shortly before the answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DialLimit<'a> {
    clock: &'a dyn Clock,
    /// The longest time of one step.
    patience: Duration,
    /// The end of the last step, if all steps together have a limit.
    deadline: Option<Instant>,
}

impl<'a> DialLimit<'a> {
    /// Returns the limit by which each step has this time.
    pub(crate) fn per_step(clock: &'a dyn Clock, patience: Duration) -> Self {
        Self { clock, patience, deadline: None }
    }

    /// Returns the limit by which all steps together have this time, from now on.
    pub(crate) fn in_total(clock: &'a dyn Clock, patience: Duration) -> Self {
        Self { clock, patience, deadline: Some(clock.now() + patience) }
    }

    /// Returns the limit by which all steps together have this share of the time of one step, from now on.
    pub(crate) fn share(&self, share: u32) -> Self {
        Self::in_total(self.clock, self.patience / share.max(1))
    }

    /// Returns half of the time, which is the limit for reading credentials, and likewise certificates. If this fails,
    /// the dial uses the last values, and time must be left for the connection.
    pub(crate) fn half(&self) -> Duration {
        self.patience / 2
    }

    /// Waits for this duration from now on.
    pub(crate) fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.clock.sleep_until(self.clock.now() + duration)
    }

    /// Performs one step.
    ///
    /// # Errors
    ///
    /// [`NodeError::DialTimedOut`] at the limit of the step.
    pub(crate) async fn step<T>(
        &self,
        step: DialStep,
        work: impl Future<Output = T>,
    ) -> Result<T, NodeError> {
        let end = self.deadline.unwrap_or_else(|| self.clock.now() + self.patience);
        match select(pin!(work), self.clock.sleep_until(end)).await {
            Either::Left((output, _)) => Ok(output),
            Either::Right(((), _)) => Err(self.late(step)),
        }
    }

    fn late(&self, step: DialStep) -> NodeError {
        NodeError::DialTimedOut(step.without_answer_within(self.patience).into())
    }
}

impl DialStep {
    /// Returns the text of an error: the step had no answer in this time.
    fn without_answer_within(self, patience: Duration) -> String {
        match self {
            Self::Lookup => format!("the name server has not answered within {patience:?}"),
            Self::Connect => format!(
                "no connection within {patience:?}; likely causes: the host is down, a firewall drops packets, or the \
                 queue of new connections is full (tcp-backlog of the server, net.core.somaxconn of its host)"
            ),
            Self::Tls { advice } => {
                format!("no answer to the handshake within {patience:?}: if the port has no TLS, {advice}")
            }
            Self::Login => format!("connected, but no answer to HELLO within {patience:?}"),
            Self::Query => format!("connected, but no master was named within {patience:?}"),
            Self::SlotMaster => {
                format!("connected, but the master of the hash slot was not named within {patience:?}")
            }
            Self::Registration => format!("connected, but no answer to the registration within {patience:?}"),
            Self::All => format!("no connection within {patience:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::future::pending;

    use super::*;
    use crate::clock::TokioClock;

    const PATIENCE: Duration = Duration::from_secs(1);

    /// Returns the duration of a dial of three steps of this length, and whether all steps were in time.
    async fn dial(clock: &TokioClock, limit: DialLimit<'_>, length: Duration) -> (Duration, bool) {
        let start = clock.now();
        let mut in_time = true;
        for step in [DialStep::Lookup, DialStep::Connect, DialStep::Login] {
            in_time = in_time && limit.step(step, clock.sleep_until(clock.now() + length)).await.is_ok();
        }
        (clock.now().saturating_duration_since(start), in_time)
    }

    #[tokio::test(start_paused = true)]
    async fn a_dial_that_makes_progress_goes_on() {
        let clock = TokioClock::new();
        let step = PATIENCE * 9 / 10;
        assert_eq!(dial(&clock, DialLimit::per_step(&clock, PATIENCE), step).await, (step * 3, true));
        assert_eq!(dial(&clock, DialLimit::in_total(&clock, PATIENCE), step).await, (PATIENCE, false));
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_without_an_answer_ends_at_its_limit_with_an_error_that_names_the_step() {
        let clock = TokioClock::new();
        let limit = DialLimit::per_step(&clock, PATIENCE);
        for (step, words) in [
            (DialStep::Lookup, "the name server"),
            (DialStep::Connect, "tcp-backlog"),
            (DialStep::Tls { advice: "write redis://" }, "if the port has no TLS, write redis://"),
            (DialStep::Login, "HELLO"),
            (DialStep::Registration, "registration"),
        ] {
            let start = clock.now();
            let error = limit.step(step, pending::<()>()).await.unwrap_err();
            assert_eq!(clock.now().saturating_duration_since(start), PATIENCE);
            assert!(matches!(error, NodeError::DialTimedOut(_)));
            assert!(error.to_string().contains(words) && error.to_string().contains("within 1s"), "{error}");
        }
    }
}
