//! The permissions of the user on a node: the commands of locks are tried with reserved names.

use std::time::Duration;

use redquorum::unstable_redis::redis::{PushInfo, PushKind, Value, cmd};
use uuid::Uuid;

use crate::{
    connect::{Disconnected, NodeConnection, Reply},
    doctor::facts::{Access, CommandTrial},
    stopwatch,
};

/// The script that tries every command. A script is atomic, so its keys are visible to no other client,
/// and commands are checked as in the scripts of locks.
const PROBE: &str = include_str!("probe.lua");

/// The time limit of a published notice, which usually arrives within a round trip.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) async fn query(connection: &mut NodeConnection) -> Result<Access, Disconnected> {
    let name = format!("redquorum:doctor:{}", Uuid::new_v4().simple());
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let subscribed = connection.subscribe(&channel).await?;
    let by_text: Reply<i64> = connection.query(cmd("EVAL").arg("return 1").arg(0)).await?;
    let loads: Reply<String> = connection.query(cmd("SCRIPT").arg("LOAD").arg(PROBE)).await?;
    let (by_hash, failed) = match &loads {
        Ok(hash) => {
            let failed = probe(connection, "EVALSHA", hash, &name, &channel).await?;
            (failed.as_ref().map(drop).map_err(Clone::clone), failed)
        }
        Err(text) => (Err(text.clone()), Err(text.clone())),
    };
    let failed = match failed {
        Ok(failed) => Ok(failed),
        Err(_) => probe(connection, "EVAL", PROBE, &name, &channel).await?,
    };
    let notices = match (subscribed, &failed) {
        (Err(text), _) => Err(text),
        (Ok(()), Err(_)) => Err("no script runs, so none can publish".to_owned()),
        (Ok(()), Ok(failed)) if failed.iter().any(|(command, _)| command == "publish") => {
            Err("publish is forbidden".to_owned())
        }
        (Ok(()), Ok(_)) => arrival(connection, &channel).await,
    };
    Ok(Access {
        by_text: by_text.map(drop),
        loads: loads.map(drop),
        by_hash,
        trial: failed.map(trial),
        notices,
    })
}

/// Separates missing permissions from other errors.
fn trial(failed: Vec<(String, String)>) -> CommandTrial {
    let (mut forbidden, others): (Vec<_>, Vec<_>) =
        failed.into_iter().partition(|(_, text)| is_about_permission(text));
    // The probe tries `set` on two keys.
    forbidden.dedup_by(|one, other| one.0 == other.0);
    CommandTrial { forbidden, failure: others.into_iter().next().map(|(_, text)| text) }
}

/// Runs the probe with EVAL or EVALSHA, and returns the failed commands with the error texts.
async fn probe(
    connection: &mut NodeConnection,
    eval: &str,
    script: &str,
    name: &str,
    channel: &str,
) -> Result<Reply<Vec<(String, String)>>, Disconnected> {
    let call = cmd(eval).arg(script).arg(0).arg(name).arg(channel).to_owned();
    let reply: Reply<Vec<String>> = connection.query(&call).await?;
    Ok(reply.map(|texts| {
        let pairs = texts.chunks_exact(2);
        pairs.filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone()))).collect()
    }))
}

/// Waits for the notice that the probe published.
async fn arrival(connection: &mut NodeConnection, channel: &str) -> Reply<()> {
    let is_notice = |push: &PushInfo| match (&push.kind, push.data.as_slice()) {
        (PushKind::Message, [Value::BulkString(from), ..]) => from == channel.as_bytes(),
        _ => false,
    };
    let arriving = async {
        while let Some(push) = connection.next_push().await {
            if is_notice(&push) {
                return true;
            }
        }
        false
    };
    match stopwatch::within(NOTICE_TIMEOUT, arriving).await {
        Some(true) => Ok(()),
        _ => Err("a published message did not arrive".to_owned()),
    }
}

/// Whether an error is about a missing permission. A script receives this error only as a text: the
/// second text from Redis up to 7.0, the third text from later versions and from Valkey.
fn is_about_permission(text: &str) -> bool {
    text.contains("NOPERM")
        || text.contains("The user executing the script can't")
        || text.contains("ACL failure in script: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_differs_from_other_errors() {
        for text in [
            "NOPERM this user has no permissions to run the 'set' command",
            "@user_script: 9: -NOPERM this user has no permissions",
            "ERR The user executing the script can't run this command or subcommand script: abc",
            "The user executing the script can't access at least one of the keys",
            "ERR ACL failure in script: User u has no permissions to run the 'set' command",
        ] {
            assert!(is_about_permission(text), "{text}");
        }
        for text in ["OOM command not allowed", "READONLY You can't write against a read only replica."] {
            assert!(!is_about_permission(text), "{text}");
        }
    }
}
