//! The monotonic time of a [`BootClock`](super::BootClock): since the start of the machine on Linux, otherwise since the
//! first call. The cfg `redquorum_portable` selects the code of the other systems on Linux, for tests of that code.

use crate::clock::Instant;

/// Returns the time since the machine was started, including suspended time (`CLOCK_BOOTTIME`).
#[cfg(all(target_os = "linux", not(redquorum_portable)))]
pub(super) fn boot_time() -> Instant {
    use std::time::Duration;

    use rustix::time::{ClockId, clock_gettime};

    let since_boot = Duration::try_from(clock_gettime(ClockId::Boottime));
    // An error would be a time before the boot, which the kernel never returns.
    Instant::from_origin(since_boot.unwrap_or_default())
}

/// Returns the time since the first call of this function, by [`std::time::Instant`].
///
/// Some systems include suspended time. Other systems, such as macOS, exclude suspended time. There, a lease seems to be
/// valid for longer than it is, by the duration of each suspend.
#[cfg(any(not(target_os = "linux"), redquorum_portable))]
#[expect(clippy::disallowed_methods, reason = "the only access to real time on this system")]
pub(super) fn boot_time() -> Instant {
    use std::sync::OnceLock;

    static ORIGIN: OnceLock<std::time::Instant> = OnceLock::new();
    Instant::from_origin(ORIGIN.get_or_init(std::time::Instant::now).elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boot_time_never_decreases() {
        let mut last = boot_time();
        for _ in 0..1000 {
            let now = boot_time();
            assert!(now >= last);
            last = now;
        }
    }

    /// `/proc/uptime` includes suspended time, so a time that equals the uptime includes suspended time, too.
    #[cfg(all(target_os = "linux", not(redquorum_portable)))]
    #[test]
    fn boot_time_equals_the_kernel_uptime() {
        use std::time::Duration;

        // The file shows hundredths of a second, rounded down.
        let resolution = Duration::from_millis(10);
        let before = boot_time();
        let text = std::fs::read_to_string("/proc/uptime").unwrap();
        let after = boot_time();

        let seconds = text.split_whitespace().next().unwrap().parse().unwrap();
        let uptime = Instant::from_origin(Duration::from_secs_f64(seconds));
        assert!(before <= uptime + resolution && uptime <= after, "{before:?} <= {uptime:?} <= {after:?}");
    }
}
