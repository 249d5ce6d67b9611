//! The findings about the memory of a node: eviction and usage.

use crate::doctor::{facts::Info, finding::Finding};

/// The used percentage at which a node is nearly full.
const NEARLY_FULL: u64 = 90;

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
    let found = format!("{percentage} % of {} used", megabytes(info.max_memory));
    let advice = "raise maxmemory, or set a shorter counter_ttl: a full node grants no locks";
    match percentage {
        100.. => Finding::fail("memory", found, advice),
        NEARLY_FULL.. => Finding::warn("memory", found, advice),
        _ => Finding::ok("memory", found),
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{} MiB", bytes >> 20)
}
