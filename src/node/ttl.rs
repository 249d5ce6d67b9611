//! Ttls, as nodes count them.

use std::time::Duration;

/// The longest ttl in milliseconds, 3,000 years: a server adds it to its own time without overflow.
const LONGEST: u64 = 100_000_000_000_000;

/// A ttl in whole milliseconds, rounded up: rounded down, a key could end before the lease that it
/// supports.
///
/// Never 0, which servers refuse or take for a deletion.
pub(crate) fn whole_milliseconds(ttl: Duration) -> u64 {
    let whole = ttl.as_nanos().div_ceil(1_000_000);
    u64::try_from(whole).unwrap_or(LONGEST).clamp(1, LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ttls_are_rounded_up_and_kept_within_what_servers_take() {
        assert_eq!(whole_milliseconds(Duration::from_millis(30_000)), 30_000);
        assert_eq!(whole_milliseconds(Duration::from_nanos(1_000_001)), 2);
        assert_eq!(whole_milliseconds(Duration::ZERO), 1);
        assert_eq!(whole_milliseconds(Duration::MAX), LONGEST);
    }
}
