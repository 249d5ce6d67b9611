//! Ttls in the unit of nodes.

use std::time::Duration;

/// The longest ttl in milliseconds: 3,000 years. A server adds a ttl to its own time, and a longer ttl could overflow.
const MAX_MILLISECONDS: u64 = 100_000_000_000_000;

/// Returns a ttl in whole milliseconds, rounded up.
///
/// With rounding down, a key could end before its lease. The result is never 0, because servers refuse a ttl of 0 or
/// execute it as a deletion.
pub(crate) fn whole_milliseconds(ttl: Duration) -> u64 {
    let whole = ttl.as_nanos().div_ceil(1_000_000);
    u64::try_from(whole).unwrap_or(MAX_MILLISECONDS).clamp(1, MAX_MILLISECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up_to_milliseconds_and_limited() {
        assert_eq!(whole_milliseconds(Duration::from_millis(30_000)), 30_000);
        assert_eq!(whole_milliseconds(Duration::from_nanos(1_000_001)), 2);
        assert_eq!(whole_milliseconds(Duration::ZERO), 1);
        assert_eq!(whole_milliseconds(Duration::MAX), MAX_MILLISECONDS);
    }
}
