//! The findings about a master behind Sentinels. A master that is cut off from its Sentinels has to stop voting,
//! because the Sentinels promote another server.

use std::time::Duration;

use crate::{
    connect::Reply,
    doctor::{
        facts::{ExpectedSettings, Info},
        finding::Finding,
    },
    duration::shown,
};

/// The time after `min-replicas-max-lag` within which a master detects that it has no replica.
pub(super) const DETECTION: Duration = Duration::from_secs(2);

pub(super) fn replicas(info: &Info) -> Finding {
    let found = match info.replicas {
        0 => {
            let advice = "start a replica, or name the server itself: Sentinels have no replica to promote";
            return Finding::warn("replicas", "none is connected", advice);
        }
        1 => "1 replica is connected, which Sentinels may promote".to_owned(),
        more => format!("{more} replicas are connected, one of which Sentinels may promote"),
    };
    Finding::ok("replicas", found)
}

/// Judges whether a master without replicas stops voting before the promoted replica starts to vote.
pub(super) fn requirement(info: &Info, max_lag: &Reply<String>, expected: &ExpectedSettings) -> Finding {
    const CHECK: &str = "failover";
    if !info.requires_replicas {
        return Finding::fail(
            CHECK,
            "a master that is cut off from its Sentinels continues to vote beside the promoted server",
            "set min-replicas-to-write 1 and min-replicas-max-lag 10 on every server of the set",
        );
    }
    let lag = match max_lag.as_deref().map(str::parse) {
        Ok(Ok(seconds)) => Duration::from_secs(seconds),
        Ok(Err(_)) | Err(_) => {
            return Finding::ok(CHECK, "a master without replicas stops voting (min-replicas-to-write)");
        }
    };
    let found = format!("a master votes for {} without replicas (min-replicas-max-lag)", shown(lag));
    let room = expected.max_ttl.saturating_sub(expected.ttl);
    if lag + DETECTION > room {
        let advice = format!(
            "max_ttl has to exceed every ttl by this time and {}: set a shorter min-replicas-max-lag, or a \
             max_ttl of {} or more for a ttl of {}",
            shown(DETECTION),
            shown(expected.ttl + lag + DETECTION),
            shown(expected.ttl)
        );
        return Finding::warn(CHECK, found, advice);
    }
    Finding::ok(CHECK, found)
}
