//! The findings about the metadata of a node: its quorum and its quarantine.

use std::time::Duration;

use redquorum::RestartGuard;

use super::is_guarded;
use crate::{
    doctor::{
        facts::{ExpectedSettings, Facts, Info, NodeMetadata, ServerFacts},
        finding::Finding,
        refusal::remedy,
    },
    duration::shown,
};

/// The beginning of the fingerprint of a node that a move or a replacement has closed.
const CLOSED: &str = "closed for ";

/// Whether a node would vote for a lock now, by its metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Voting {
    Votes,
    /// The node is in quarantine, or will be from the next registration on.
    Abstains,
    Unknown,
}

/// The words before the address of the new server, in the fingerprint of a replaced node.
const REPLACED: &str = " replaced by ";

/// The words before the address of the old node, in the fingerprint of a server that a replacement has not opened yet.
const JOINING: &str = " in place of ";

/// The replacement of a node.
struct Replacement<'f> {
    /// The fingerprint of the quorum.
    quorum: &'f str,
    /// The address of the server that stands in for the node.
    new: &'f str,
}

/// Returns the replacement of a node with this fingerprint; `None` if the node was not replaced.
fn replacement(fingerprint: &str) -> Option<Replacement<'_>> {
    let (quorum, new) = fingerprint.strip_prefix(CLOSED)?.rsplit_once(REPLACED)?;
    (!new.contains(' ')).then_some(Replacement { quorum, new })
}

/// Returns the address of the old node that a closed server is to stand in for.
fn joining_for<'f>(fingerprint: &'f str, ours: &str) -> Option<&'f str> {
    let joining = fingerprint.strip_prefix(CLOSED)?.strip_prefix(ours)?.strip_prefix(JOINING)?;
    joining.rsplit_once(" by ").map(|(old, _call)| old)
}

/// Whether a move has closed any node, and neither ended nor was given up.
pub(super) fn is_moving(facts: &Facts) -> bool {
    let servers = facts.nodes.iter().filter_map(|node| node.server.as_ref().ok());
    let mut metadata = servers.filter_map(|server| server.metadata.as_ref().ok()?.as_ref());
    metadata.any(|NodeMetadata { fingerprint, .. }| {
        fingerprint.starts_with(CLOSED)
            && replacement(fingerprint).is_none()
            && !fingerprint.contains(JOINING)
    })
}

pub(super) fn fingerprint(server: &ServerFacts, expected: &ExpectedSettings, is_moving: bool) -> Finding {
    let ours = &expected.fingerprint;
    if let Ok(Some(NodeMetadata { fingerprint, .. })) = &server.metadata {
        match replacement(fingerprint) {
            Some(Replacement { quorum, new }) if quorum == *ours => {
                let remedy = "give these settings, and every client, the new address, and stop this server";
                return Finding::fail("metadata", format!("the node was replaced by {new}"), remedy);
            }
            Some(Replacement { quorum, new }) => {
                let remedy = "correct the address; if this quorum had those settings before, give these settings the new \
                              address";
                let text = format!("the node was replaced by {new} in another quorum: it had ({quorum})");
                return Finding::fail("metadata", text, remedy);
            }
            None => {}
        }
        if let Some(old) = joining_for(fingerprint, ours) {
            let remedy = "run the same `redquorum replace --old URL --new URL` again; if it was abandoned, FLUSHALL this \
                          server before another use";
            let text = format!("closed by a replacement of {old}, which was interrupted");
            return Finding::fail("metadata", text, remedy);
        }
    }
    match &server.metadata {
        Err(text) => Finding::unknown("metadata", text, remedy(text, "hmget", "~redquorum:*")),
        Ok(Some(metadata)) if metadata.fingerprint == *ours => Finding::ok("metadata", format!("({ours})")),
        Ok(Some(NodeMetadata { fingerprint, .. })) if fingerprint.starts_with(CLOSED) => Finding::fail(
            "metadata",
            format!(
                "closed by a move of the quorum: the node has ({fingerprint}), these settings are ({ours})"
            ),
            "end the move: run the same `redquorum reconfigure --from FILE --to FILE` again; or give up the move: add \
             `--give-up`, which opens the old nodes again unless new nodes may vote already",
        ),
        Ok(Some(NodeMetadata { fingerprint, .. })) => Finding::fail(
            "metadata",
            format!("belongs to another quorum: the node has ({fingerprint}), these settings are ({ours})"),
            "correct the settings or the address; to change a quorum, use `redquorum reconfigure`; \
             if the node is left over from another quorum, FLUSHALL it",
        ),
        Ok(None) if is_guarded(expected.guard) && is_moving => Finding::warn(
            "metadata",
            "not initialised, and other nodes are closed by a move of the quorum",
            "end the move or give it up: a move admits its new nodes itself",
        ),
        Ok(None) if is_guarded(expected.guard) => Finding::warn(
            "metadata",
            "not initialised",
            "`redquorum init`, but only if no client has ever locked here, and not during a move; after a restart or \
             a flush, the node votes again after its quarantine",
        ),
        Ok(None) => Finding::ok("metadata", "none, and without a restart guard none is needed"),
    }
}

pub(super) fn quarantine(server: &ServerFacts, guard: RestartGuard, is_moving: bool) -> Finding {
    let advice = match is_moving || is_closed(server) {
        true => "wait before you restart the next node",
        false => {
            "wait before you restart the next node; `redquorum init` ends the quarantine at once, but only if no \
             client has ever locked here, and not during a move"
        }
    };
    match &server.quarantine {
        Err(text) => Finding::unknown("quarantine", text, remedy(text, "pttl", "~redquorum:*")),
        Ok(Some(rest)) if is_guarded(guard) => {
            Finding::warn("quarantine", format!("the node gives no votes for {}", shown(*rest)), advice)
        }
        Ok(Some(rest)) => Finding::warn(
            "quarantine",
            format!("the node gives no votes for {} to clients that have a restart guard", shown(*rest)),
            "set the same restart guard for all clients",
        ),
        Ok(None) if is_guarded(guard) && is_of_another_incarnation(server) => Finding::warn(
            "quarantine",
            "the server restarted or was promoted, and no client has connected since: the quarantine begins with \
             the next client",
            advice,
        ),
        Ok(None) => Finding::ok("quarantine", "none"),
    }
}

/// Returns whether the node would vote for a lock with these settings.
pub(super) fn voting(server: &ServerFacts, expected: &ExpectedSettings) -> Voting {
    if !is_guarded(expected.guard) {
        return Voting::Votes;
    }
    match (&server.metadata, &server.quarantine) {
        (Ok(Some(metadata)), Ok(quarantine)) => {
            let is_ours = metadata.fingerprint == expected.fingerprint;
            let is_over = quarantine.is_none_or(|rest: Duration| rest.is_zero());
            if is_ours && is_over && !is_of_another_incarnation(server) {
                Voting::Votes
            } else {
                Voting::Abstains
            }
        }
        (Ok(None), _) => Voting::Abstains,
        _ => Voting::Unknown,
    }
}

/// Whether a move or a replacement has closed the node.
fn is_closed(server: &ServerFacts) -> bool {
    matches!(&server.metadata, Ok(Some(metadata)) if metadata.fingerprint.starts_with(CLOSED))
}

/// Whether the metadata is from an earlier incarnation of the server.
fn is_of_another_incarnation(server: &ServerFacts) -> bool {
    let (Ok(Some(metadata)), Ok(Info { run_id, replication_id, .. })) = (&server.metadata, &server.info)
    else {
        return false;
    };
    metadata.incarnation != format!("{run_id}/{replication_id}")
}
