//! The text of points of global time in timelines and violations.

use std::{fmt, time::Duration};

/// A duration in milliseconds, to the microsecond: `12.345`.
///
/// Supports a width and an alignment: `{:>12}`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Millis(pub(crate) Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        f.pad(&format!("{}.{:03}", micros / 1000, micros % 1000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_shown_with_three_decimals_and_can_be_aligned() {
        assert_eq!(Millis(Duration::from_nanos(12_345_999)).to_string(), "12.345");
        assert_eq!(format!("{:>8}|", Millis(Duration::from_micros(7))), "   0.007|");
    }
}
