//! Durations in arguments, tables and JSON.

use std::time::Duration;

pub(crate) use redquorum::__command::parse_duration as parse;

/// Returns a duration as tables show it, with one decimal place.
pub(crate) fn shown(duration: Duration) -> String {
    format!("{duration:.1?}")
}

/// Returns a long duration in hours and minutes, rounded up to a second, or a duration of less than an hour as
/// [`shown`].
pub(crate) fn coarse(duration: Duration) -> String {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    match (seconds / 3600, seconds % 3600 / 60) {
        (0, _) => shown(duration),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}

/// Returns a duration of an argument in the form in which arguments are written, such as `5s` or `1m 30s`.
pub(crate) fn given(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

/// Returns a duration for JSON, in milliseconds rounded to the microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_duration_is_shown_in_hours_and_minutes() {
        for (milliseconds, expected) in [
            (86_399_800, "24h"),
            (86_300_000, "23h58m"),
            (3_600_000, "1h"),
            (3_598_500, "3598.5s"),
            (1500, "1.5s"),
        ] {
            assert_eq!(coarse(Duration::from_millis(milliseconds)), expected);
        }
    }
}
