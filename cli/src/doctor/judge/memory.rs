//! The findings about the memory of a node: eviction and usage.

use crate::{
    counted::counted,
    doctor::{facts::Info, finding::Finding},
};

/// The used percentage at which a node is nearly full.
const NEARLY_FULL: u64 = 90;

/// The largest used percentage that is shown.
const MAX_SHOWN_PERCENTAGE: u64 = 999;

pub(super) fn eviction(info: &Info) -> Finding {
    let advice = "CONFIG SET maxmemory-policy noeviction, and set the same in the server's configuration file: an \
        evicted key is a lost vote";
    match info.eviction.as_str() {
        "noeviction" => Finding::ok("eviction", "maxmemory-policy noeviction"),
        "" => Finding::unknown("eviction", "INFO has no maxmemory_policy", advice),
        policy if info.max_memory == 0 => Finding::warn(
            "eviction",
            format!("maxmemory-policy {policy}, which has no effect without a maxmemory"),
            advice,
        ),
        policy => Finding::fail("eviction", format!("maxmemory-policy {policy}"), advice),
    }
}

pub(super) fn usage(info: &Info) -> Finding {
    if info.max_memory == 0 {
        return Finding::ok("memory", format!("{} used, without a maxmemory", megabytes(info.used_memory)));
    }
    let percentage = info.used_memory.saturating_mul(100) / info.max_memory;
    let (used, most) = (megabytes(info.used_memory), megabytes(info.max_memory));
    let found = match percentage {
        // A larger percentage means that maxmemory is far below the memory of an empty server.
        0..=MAX_SHOWN_PERCENTAGE => format!("{percentage} % of {most} used"),
        _ => format!("{used} used, more than the maxmemory of {most}"),
    };
    let advice = "raise maxmemory, or set a shorter counter_ttl: a full node grants no locks";
    match percentage {
        100.. => Finding::fail("memory", found, advice),
        NEARLY_FULL.. => Finding::warn("memory", found, advice),
        _ => Finding::ok("memory", found),
    }
}

/// Returns a number of bytes in MiB, or in bytes if there is no whole MiB.
fn megabytes(bytes: u64) -> String {
    match bytes >> 20 {
        0 => counted(usize::try_from(bytes).unwrap_or(usize::MAX), "byte"),
        megabytes => format!("{megabytes} MiB"),
    }
}
