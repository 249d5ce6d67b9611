//! Durations in arguments, tables and JSON.

use std::time::Duration;

pub(crate) use redquorum::__command::parse_duration as parse;

/// Returns a duration as tables show it, with one decimal place.
pub(crate) fn shown(duration: Duration) -> String {
    format!("{duration:.1?}")
}

/// Returns a duration of an argument in the form in which arguments are written, such as `5s` or `1m 30s`.
pub(crate) fn given(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Returns a duration for JSON, in milliseconds rounded to the microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}
