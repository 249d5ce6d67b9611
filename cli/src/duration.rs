//! Durations as people write them.

use std::{fmt, time::Duration};

use humantime::DurationError;
use serde::{
    Deserialize, Deserializer,
    de::{Error, Visitor},
};

/// Reads a duration such as `30s`, `500ms` or `1m 30s`; a number alone needs a unit, except for
/// `0`.
///
/// # Errors
///
/// What is wrong with it, and what would be right.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|error| match error {
        DurationError::UnknownUnit { unit, .. } if unit.is_empty() => {
            "the unit is missing: write it like 30s or 500ms".to_owned()
        }
        error => format!("{error}: write it like 30s or 500ms"),
    })
}

/// A duration as tables show it: no more than a figure behind the point.
pub(crate) fn shown(duration: Duration) -> String {
    format!("{duration:.1?}")
}

/// A duration in milliseconds, to the microsecond, as JSON has it.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    (duration.as_secs_f64() * 1e6).round() / 1e3
}

/// A duration in the configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Written(pub(crate) Duration);

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Text).map(Self)
    }
}

/// Reads a duration from a text, and tells what a bare number lacks.
struct Text;

impl Visitor<'_> for Text {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"30s\" or \"500ms\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse(text).map_err(|error| E::custom(format!("{text:?} is no duration, {error}")))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Duration, E> {
        Err(E::custom(format!("{number} is no duration, the unit is missing: write it like \"{number}s\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit_unless_it_is_zero() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("0"), Ok(Duration::ZERO));
        assert_eq!(parse("30").unwrap_err(), "the unit is missing: write it like 30s or 500ms");
        assert!(parse("-1s").is_err());
    }
}
