//! Numbers in arguments.

use std::{fmt::Display, ops::RangeInclusive, str::FromStr};

/// Returns a parser of whole numbers in this range. The error names the range.
pub(crate) fn within<T>(range: RangeInclusive<T>) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: FromStr + PartialOrd + Display + Clone + Send + Sync,
{
    move |text: &str| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_beyond_the_range_is_refused_with_the_range() {
        let parse = within(1_u8..=255);
        assert_eq!((parse("1"), parse("255")), (Ok(1), Ok(255)));
        for text in ["0", "256", "-1", "1.5", "many", ""] {
            assert_eq!(parse(text), Err("expected a whole number from 1 to 255".to_owned()), "{text}");
        }
    }
}
