//! The notice that another client counts a different number of permits for a semaphore.

use std::{cell::Cell, convert::Infallible, future::pending, time::Duration};

use redquorum::Quorum;

use crate::{counted::counted, messages::Messages, name, stopwatch};

/// The time between two looks at the result of the check, which arrives within a round trip of the first lock request.
const INTERVAL: Duration = Duration::from_millis(100);

/// The number of looks. A node that answers later than that is slow, and the last look is at the end of the command.
const LOOKS: usize = 20;

/// The report of one command, which has at most one notice.
pub(crate) struct PermitCountReport<'a> {
    quorum: &'a Quorum,
    semaphore: &'a [u8],
    permits: u32,
    messages: &'a Messages,
    is_reported: Cell<bool>,
}

impl<'a> PermitCountReport<'a> {
    pub(crate) fn new(quorum: &'a Quorum, semaphore: &'a [u8], permits: u32, messages: &'a Messages) -> Self {
        Self { quorum, semaphore, permits, messages, is_reported: Cell::new(false) }
    }

    /// Reports a different number, if the client has found one.
    pub(crate) fn look(&self) {
        let found = self.quorum.semaphore(self.semaphore, self.permits).count_mismatch();
        if let Some(other) = found
            && !self.is_reported.replace(true)
        {
            self.messages.notice(&notice(&name::shown(self.semaphore), self.permits, other));
        }
    }

    /// Reports a different number when the client finds one, until the future is dropped.
    pub(crate) async fn run(&self) -> Infallible {
        for _ in 0..LOOKS {
            self.look();
            stopwatch::pause(INTERVAL).await;
        }
        pending().await
    }
}

fn notice(name: &str, permits: u32, other: u32) -> String {
    let (here, most) = (counted(permits as usize, "permit"), permits.max(other));
    format!(
        "{name} has {here} here, but another client counted {other} in the last 10 minutes, so {most} or more may be in \
         use: use the same number everywhere"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notice_has_both_numbers_and_the_larger_as_possible_use() {
        for (permits, other, expected) in [
            (
                2,
                3,
                "gpu has 2 permits here, but another client counted 3 in the last 10 minutes, so 3 or more",
            ),
            (
                3,
                1,
                "gpu has 3 permits here, but another client counted 1 in the last 10 minutes, so 3 or more",
            ),
            (
                1,
                2,
                "gpu has 1 permit here, but another client counted 2 in the last 10 minutes, so 2 or more",
            ),
        ] {
            let notice = notice("gpu", permits, other);
            assert!(notice.starts_with(expected), "{notice}");
        }
    }
}
