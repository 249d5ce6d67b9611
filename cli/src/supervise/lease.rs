//! What a command runs under.

use std::time::Duration;

use redquorum::{Leadership, MultiLockGuard, Permit};

/// A lease, as long as it is valid: that of a lock, or of a leader.
pub(crate) trait Lease {
    /// How much of the validity is left; zero once it is over.
    fn left(&self) -> Duration;

    /// Ready when no more than this is left, however often it is renewed before.
    async fn expiring_within(&self, left: Duration);
}

impl Lease for MultiLockGuard {
    fn left(&self) -> Duration {
        self.remaining()
    }

    async fn expiring_within(&self, left: Duration) {
        self.expiring_within(left).await;
    }
}

impl Lease for Permit {
    fn left(&self) -> Duration {
        self.remaining()
    }

    async fn expiring_within(&self, left: Duration) {
        redquorum::Lease::expiring_within(self, left).await;
    }
}

impl Lease for Leadership {
    fn left(&self) -> Duration {
        self.remaining()
    }

    async fn expiring_within(&self, left: Duration) {
        self.expiring_within(left).await;
    }
}
