//! Durations in arguments, tables and JSON.

use std::{fmt, ops::Deref, time::Duration};

pub(crate) use redquorum::__command::parse_duration as parse;

use crate::failure::Failure;

/// A duration that is shown as the user wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GivenDuration {
    duration: Duration,
    text: String,
}

/// Parses a duration, and keeps its text.
///
/// # Errors
///
/// As [`parse`].
pub(crate) fn parse_given(text: &str) -> Result<GivenDuration, String> {
    let duration = parse(text)?;
    // Blanks and ends of lines may separate the terms of a duration.
    Ok(GivenDuration { duration, text: text.split_whitespace().collect::<Vec<_>>().join(" ") })
}

/// A duration that no user wrote is shown with its largest unit up to seconds.
impl From<Duration> for GivenDuration {
    fn from(duration: Duration) -> Self {
        Self { duration, text: format!("{duration:?}") }
    }
}

impl Deref for GivenDuration {
    type Target = Duration;

    fn deref(&self) -> &Duration {
        &self.duration
    }
}

impl fmt::Display for GivenDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Returns the failure of the library with the duration of a setting as the user wrote it.
pub(crate) fn shown_as_given(failure: Failure, setting: &str, given: Option<&GivenDuration>) -> Failure {
    let Some(given) = given else { return failure };
    match failure.message.strip_prefix(&format!("{setting} is {:?}: ", given.duration)) {
        Some(rest) => Failure { message: format!("{setting} is {given}: {rest}"), ..failure },
        None => failure,
    }
}

/// Returns a duration as tables show it, with one decimal place.
pub(crate) fn shown(duration: Duration) -> String {
    format!("{duration:.1?}")
}

/// Returns a long duration in hours and minutes, or from two days on in days and hours, rounded up to a minute. Returns
/// a duration of less than an hour as [`shown`].
pub(crate) fn coarse(duration: Duration) -> String {
    if duration <= Duration::from_secs(3599) {
        return shown(duration);
    }
    let minutes = duration.as_secs().div_ceil(60);
    match (minutes / 60, minutes % 60) {
        (hours @ 48.., _) if hours % 24 == 0 => format!("{}d", hours / 24),
        (hours @ 48.., _) => format!("{}d{}h", hours / 24, hours % 24),
        (hours, 0) => format!("{hours}h"),
        (hours, minutes) => format!("{hours}h{minutes}m"),
    }
}

/// Returns a duration for JSON, in milliseconds rounded to the microsecond.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn a_duration_in_a_failure_is_shown_as_the_user_wrote_it() {
        let given = parse_given(" 99h  60m\n").unwrap();
        assert_eq!((*given, given.to_string()), (Duration::from_secs(360_000), "99h 60m".to_owned()));
        let shown = |message: &str, setting| {
            shown_as_given(Failure::new(Exit::Config, message), setting, Some(&given)).message
        };
        assert_eq!(shown("ttl is 360000s: expected less", "ttl"), "ttl is 99h 60m: expected less");
        for other in ["ttl is 36s: expected less", "a ttl is 360000s: expected less"] {
            assert_eq!(shown(other, "ttl"), other);
        }
        assert_eq!(GivenDuration::from(Duration::from_millis(1500)).to_string(), "1.5s");
    }

    #[test]
    fn a_long_duration_is_shown_in_days_hours_and_minutes() {
        for (milliseconds, expected) in [
            (86_399_800, "24h"),
            (86_300_000, "23h59m"),
            (30 * 86_400_000 - 200, "30d"),
            (29 * 86_400_000 + 7_300_000, "29d2h"),
            (3_600_000, "1h"),
            (3_598_500, "3598.5s"),
            (1500, "1.5s"),
        ] {
            assert_eq!(coarse(Duration::from_millis(milliseconds)), expected);
        }
    }
}
