//! What a node knows of its quorum.

use std::time::Duration;

use redquorum::redis::cmd;

use crate::{
    dial::{Gone, Line, Told},
    doctor::facts::NodeMetadata,
};

pub(super) async fn ask(line: &mut Line) -> Result<Told<Option<NodeMetadata>>, Gone> {
    let fields = cmd("HMGET").arg("redquorum:node").arg("incarnation").arg("fingerprint").to_owned();
    let told: Told<(Option<String>, Option<String>)> = line.ask(&fields).await?;
    Ok(told.map(|(incarnation, fingerprint)| {
        let incarnation = incarnation.unwrap_or_default();
        fingerprint.map(|fingerprint| NodeMetadata { incarnation, fingerprint })
    }))
}

/// How long the node must not vote.
pub(super) async fn quarantine(line: &mut Line) -> Result<Told<Option<Duration>>, Gone> {
    let told: Told<i64> = line.ask(cmd("PTTL").arg("redquorum:quarantine")).await?;
    // Below zero: there is no such key.
    Ok(told.map(|rest| u64::try_from(rest).ok().map(Duration::from_millis)))
}
