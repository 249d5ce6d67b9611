//! The reports about a lease that is not renewed, with the reasons of the nodes. `Job::run` prints them.

use std::time::Duration;

use redquorum::{Lease, error::Error};

use crate::{failure::reasons, stopwatch};

/// The number of checks, within the time of the mark, whether a lease that was not renewed is renewed again.
const CHECKS_PER_MARK: u32 = 10;

/// The reporter of missing renewals: one message when the lease is not renewed, and one when the lease is renewed
/// again.
#[derive(Debug)]
pub(super) struct RenewalReporter<'a> {
    /// The name of the lock, in the words of the user.
    subject: &'a str,
    /// The remaining validity below which the lease counts as not renewed.
    mark: Duration,
    is_reported: bool,
}

impl<'a> RenewalReporter<'a> {
    pub(super) fn new(subject: &'a str, mark: Duration) -> Self {
        Self { subject, mark, is_reported: false }
    }

    /// Waits until a report may be due.
    pub(super) async fn due(&self, lease: &Lease) {
        if self.is_reported {
            stopwatch::pause(self.mark / CHECKS_PER_MARK).await;
        } else {
            lease.expiring_within(self.mark).await;
        }
    }

    /// Returns the report that is due, if any.
    pub(super) fn report(&mut self, lease: &Lease) -> Option<String> {
        self.report_about(lease.remaining(), || node_reasons(lease))
    }

    fn report_about(&mut self, left: Duration, reasons: impl FnOnce() -> Vec<String>) -> Option<String> {
        let (subject, is_late) = (self.subject, left <= self.mark);
        // A lease without remaining validity is lost. `Job::run` reports the loss.
        if std::mem::replace(&mut self.is_reported, is_late) == is_late || left.is_zero() {
            return None;
        }
        let message = if is_late {
            format!("the lease on {subject} is not renewed, and ends in {left:.1?}")
        } else {
            return Some(format!("the lease on {subject} is renewed again"));
        };
        Some(with_reasons(message, &reasons()))
    }
}

/// Returns the replies of the nodes that have not renewed the lease, as `node: reason`.
pub(super) fn node_reasons(lease: &Lease) -> Vec<String> {
    reasons(&lease.node_replies())
}

/// Returns two clauses about the state of a lease, for a report now and for a report after the end of the command: the
/// loss with its reason, or the missing renewal.
pub(super) fn trouble(lease: &Lease, subject: &str) -> (String, String) {
    match lease.ensure() {
        Err(Error::LeaseLost(lost)) => {
            let clause = format!("the lease on {subject} is lost: {}", lost.reason);
            (clause.clone(), clause)
        }
        Err(error) => (error.to_string(), error.to_string()),
        Ok(()) => missing_renewal(subject, lease.remaining()),
    }
}

fn missing_renewal(subject: &str, left: Duration) -> (String, String) {
    (
        format!("the lease on {subject} ends in {left:.1?} and is not renewed"),
        format!("the lease on {subject} was not renewed {left:.1?} before its end"),
    )
}

/// Appends the reasons of nodes to a message, in one line.
pub(super) fn with_reasons(message: String, reasons: &[String]) -> String {
    std::iter::once(message).chain(reasons.iter().cloned()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_after_the_end_of_the_command_is_in_the_past() {
        let (now, afterwards) = missing_renewal("job", Duration::from_millis(863));
        assert_eq!(now, "the lease on job ends in 863.0ms and is not renewed");
        assert_eq!(afterwards, "the lease on job was not renewed 863.0ms before its end");
    }

    #[test]
    fn a_missing_renewal_and_the_next_renewal_are_reported_once() {
        let mut reporter = RenewalReporter::new("job", Duration::from_secs(15));
        let mut report =
            |seconds| reporter.report_about(Duration::from_secs(seconds), || vec!["a:1: refused".to_owned()]);
        assert_eq!(report(16), None);
        let warning = "the lease on job is not renewed, and ends in 14.0s; a:1: refused";
        assert_eq!(report(14).as_deref(), Some(warning));
        assert_eq!(report(10), None);
        assert_eq!(report(29).as_deref(), Some("the lease on job is renewed again"));
        assert_eq!(report(14).as_deref(), Some(warning));
        assert_eq!(report(0), None, "the loss has its own report");
    }
}
