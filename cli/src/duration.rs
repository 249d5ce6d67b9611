//! Durations as people write and see them.

use std::time::Duration;

pub(crate) use redquorum::__command::parse_duration as parse;

/// A duration as tables show it: no more than a figure behind the point.
pub(crate) fn shown(duration: Duration) -> String {
    format!("{duration:.1?}")
}

/// A duration in milliseconds, to the microsecond, as JSON has it.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
