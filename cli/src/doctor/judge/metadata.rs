//! To which quorum a node belongs, and whether it votes.

use std::time::Duration;

use redquorum::RestartGuard;

use super::is_guarded;
use crate::{
    doctor::{
        facts::{Expected, Info, NodeMetadata, Server},
        finding::Finding,
    },
    duration::shown,
};

/// Whether a node would vote for a lock now, as far as its metadata tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voting {
    Votes,
    /// It is in quarantine, or will be when the next client comes.
    Abstains,
    Unknown,
}

pub(super) fn fingerprint(server: &Server, expected: &Expected) -> Finding {
    let ours = &expected.fingerprint;
    match &server.metadata {
        Err(words) => Finding::unknown("metadata", words, "allow HMGET on ~redquorum:* to the user"),
        Ok(Some(metadata)) if metadata.fingerprint == *ours => Finding::ok("metadata", format!("({ours})")),
        Ok(Some(NodeMetadata { fingerprint, .. })) => Finding::fail(
            "metadata",
            format!("it belongs to another quorum: it has ({fingerprint}), these settings are ({ours})"),
            "correct the settings or the address; `redquorum reconfigure` changes a quorum; \
             FLUSHALL a node that is left over",
        ),
        Ok(None) if is_guarded(expected.guard) => Finding::warn(
            "metadata",
            "not initialised",
            "`redquorum init`, if the whole quorum is new; otherwise it lost its data, and will wait \
             out its quarantine",
        ),
        Ok(None) => Finding::ok("metadata", "none, and without a restart guard none is needed"),
    }
}

pub(super) fn quarantine(server: &Server, guard: RestartGuard) -> Finding {
    let advice =
        "wait, before you restart the next node; with all nodes new, `redquorum init` would have spared it";
    match &server.quarantine {
        Err(words) => Finding::unknown("quarantine", words, "allow PTTL on ~redquorum:* to the user"),
        Ok(Some(rest)) if is_guarded(guard) => {
            Finding::warn("quarantine", format!("it gives no votes for {}", shown(*rest)), advice)
        }
        Ok(Some(rest)) => Finding::warn(
            "quarantine",
            format!("it gives no votes for {} to clients that have a restart guard", shown(*rest)),
            "let all clients have the same restart guard",
        ),
        Ok(None) if is_guarded(guard) && is_of_another_incarnation(server) => Finding::warn(
            "quarantine",
            "it restarted, or was promoted, and no client has come since: its quarantine begins with \
             the next one",
            advice,
        ),
        Ok(None) => Finding::ok("quarantine", "none"),
    }
}

/// Whether the node would vote for a lock of this configuration.
pub(super) fn voting(server: &Server, expected: &Expected) -> Voting {
    if !is_guarded(expected.guard) {
        return Voting::Votes;
    }
    match (&server.metadata, &server.quarantine) {
        (Ok(Some(metadata)), Ok(quarantine)) => {
            let is_ours = metadata.fingerprint == expected.fingerprint;
            let is_sure = quarantine.is_none_or(|rest: Duration| rest.is_zero());
            if is_ours && is_sure && !is_of_another_incarnation(server) {
                Voting::Votes
            } else {
                Voting::Abstains
            }
        }
        (Ok(None), _) => Voting::Abstains,
        _ => Voting::Unknown,
    }
}

/// Whether the metadata is of another incarnation than the server's.
fn is_of_another_incarnation(server: &Server) -> bool {
    let (Ok(Some(metadata)), Ok(Info { run_id, replication_id, .. })) = (&server.metadata, &server.info)
    else {
        return false;
    };
    metadata.incarnation != format!("{run_id}/{replication_id}")
}
