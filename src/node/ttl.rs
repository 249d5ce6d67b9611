//! Ttls in the unit of nodes.

use std::time::Duration;

/// The longest ttl in milliseconds: 3,000 years, which a server adds to its own time without overflow.
const LONGEST: u64 = 100_000_000_000_000;

/// Returns a ttl in whole milliseconds, rounded up.
///
/// If it were rounded down, a key could end before its lease. The result is never 0, which servers refuse or
/// execute as a deletion.
pub(crate) fn whole_milliseconds(ttl: Duration) -> u64 {
    let whole = ttl.as_nanos().div_ceil(1_000_000);
    u64::try_from(whole).unwrap_or(LONGEST).clamp(1, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ttl_is_rounded_up_to_milliseconds_and_limited() {
        assert_eq!(whole_milliseconds(Duration::from_millis(30_000)), 30_000);
        assert_eq!(whole_milliseconds(Duration::from_nanos(1_000_001)), 2);
        assert_eq!(whole_milliseconds(Duration::ZERO), 1);
        assert_eq!(whole_milliseconds(Duration::MAX), LONGEST);
    }
}
