//! Durations as text, such as `1m 30s`.

use std::{fmt, time::Duration};

use serde::de::{Error, Visitor};

use crate::values::shown_value;

/// The units, each with its names and its length in nanoseconds.
const UNITS: [(&[&str], u128); 7] = [
    (&["ns"], 1),
    (&["us", "µs"], 1_000),
    (&["ms"], 1_000_000),
    (&["s", "sec"], 1_000_000_000),
    (&["m", "min"], 60 * 1_000_000_000),
    (&["h"], 3600 * 1_000_000_000),
    (&["d"], 24 * 3600 * 1_000_000_000),
];

/// Parses a duration such as `30s`, `500ms` or `1m 30s`: whole numbers, each with its unit (`ns`, `us`, `ms`,
/// `s`, `m`, `h` or `d`). Only `0` needs no unit.
///
/// # Errors
///
/// The fault of the text, and what is expected.
pub(crate) fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = |reason: String| {
        format!("{:?} is no duration, {reason}: write it like 30s or 500ms", shown_value(text))
    };
    let mut rest = text.trim();
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(wrong("the text is empty".to_owned()));
    }
    let mut sum: u128 = 0;
    while !rest.is_empty() {
        let (digits, after) = split(rest, |character| character.is_ascii_digit());
        let (unit, after) = split(after.trim_start(), char::is_alphabetic);
        if digits.is_empty() {
            return Err(wrong(format!("no whole number begins at {:?}", shown_value(rest))));
        }
        if unit.is_empty() {
            return Err(wrong("the unit is missing".to_owned()));
        }
        let found = UNITS.iter().find(|(units, _)| units.contains(&unit));
        let Some((_, nanoseconds)) = found else {
            return Err(wrong(format!("{:?} is no unit (ns, us, ms, s, m, h, d)", shown_value(unit))));
        };
        let number: Option<u128> = digits.parse().ok();
        let term = number.and_then(|number| number.checked_mul(*nanoseconds));
        let total = term.and_then(|term| sum.checked_add(term));
        sum = total.ok_or_else(|| wrong("it is too long".to_owned()))?;
        rest = after.trim_start();
    }
    let seconds = u64::try_from(sum / 1_000_000_000).map_err(|_| wrong("it is too long".to_owned()))?;
    let nanoseconds = u32::try_from(sum % 1_000_000_000).unwrap_or_default();
    Ok(Duration::new(seconds, nanoseconds))
}

/// Splits a text after its longest prefix of characters for which `is_of_kind` returns true.
fn split(text: &str, is_of_kind: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|character| !is_of_kind(character)).unwrap_or(text.len()))
}

/// The visitor of durations in a file. A bare number is refused with the expected form.
pub(super) struct DurationText;

impl Visitor<'_> for DurationText {
    type Value = Duration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as \"30s\" or \"500ms\"")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Duration, E> {
        parse_duration(text).map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Duration, E> {
        Err(E::custom(format!("{number} is no duration, the unit is missing: write it like \"{number}s\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_the_sum_of_numbers_with_units() {
        for (text, milliseconds) in [
            ("500ms", 500),
            ("30s", 30_000),
            (" 1m 30s ", 90_000),
            ("1m30s", 90_000),
            ("2 min", 120_000),
            ("1h", 3_600_000),
            ("1d", 86_400_000),
            ("0", 0),
            ("0s", 0),
            ("1000us", 1),
            ("1000µs", 1),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text:?}");
        }
        assert_eq!(parse_duration("18446744073709551615s 999999999ns"), Ok(Duration::MAX));
    }

    #[test]
    fn the_error_of_a_duration_names_the_text_and_the_expected_form() {
        let too_long = "9".repeat(50) + "s";
        for (text, reason) in [
            ("30", "\"30\" is no duration, the unit is missing: write it like 30s or 500ms"),
            ("", "the text is empty"),
            ("-1s", "no whole number begins at \"-1s\""),
            ("1.5s", "the unit is missing"),
            ("1x", "\"x\" is no unit (ns, us, ms, s, m, h, d)"),
            ("1s,2s", "no whole number begins at \",2s\""),
            ("s", "no whole number begins at \"s\""),
            ("18446744073709551616s", "it is too long"),
            (&too_long, "it is too long"),
        ] {
            let error = parse_duration(text).unwrap_err();
            assert!(error.contains(reason), "{text:?}: {error}");
        }
    }
}
