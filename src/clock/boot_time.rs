//! Reading the machine's clock.

use crate::clock::Instant;

/// The time since the machine was started, `CLOCK_BOOTTIME`: it counts while the machine is
/// suspended.
#[cfg(all(target_os = "linux", not(redquorum_portable)))]
pub(super) fn boot_time() -> Instant {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    let since_boot = Duration::try_from(clock_gettime(ClockId::Boottime));
    // Only a time before the boot would be an error, and the kernel has none.
    Instant::from_origin(since_boot.unwrap_or_default())
}

/// The time since this function was first called, as [`std::time::Instant`] counts it.
///
/// Whether that includes suspended time depends on the system. Where it does not, as on macOS, a
/// lease looks valid for as much longer as the machine slept.
#[cfg(any(not(target_os = "linux"), redquorum_portable))]
#[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
pub(super) fn boot_time() -> Instant {
    use std::sync::OnceLock;

    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    Instant::from_origin(ORIGIN.get_or_init(std::time::Instant::now).elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_never_goes_back() {
        let mut last = boot_time();
        for _ in 0..1000 {
            let now = boot_time();
            assert!(now >= last);
            last = now;
        }
    }

    #[cfg(all(target_os = "linux", not(redquorum_portable)))]
    /// Monotonic, and a suspended machine's time counts too.
    #[test]
    fn the_kernel_calls_the_same_time_its_uptime() {
        use std::time::Duration;

        // A 100th of a second is all that the file shows, cut off.
        let resolution = Duration::from_millis(10);
        let before = boot_time();
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        let after = boot_time();

        let seconds = text.split_whitespace().next().unwrap().parse().unwrap();
        let uptime = Instant::from_origin(Duration::from_secs_f64(seconds));
        assert!(before <= uptime + resolution && uptime <= after, "{before:?} <= {uptime:?} <= {after:?}");
    }
}
