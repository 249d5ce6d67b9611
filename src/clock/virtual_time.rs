//! Tokio's time, which tests can pause.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt};

use crate::clock::{Clock, Instant};

/// Tokio's own clock: virtual where a test paused it.
#[derive(Clone, Debug)]
pub(crate) struct TokioClock {
    origin: tokio::time::Instant,
}
