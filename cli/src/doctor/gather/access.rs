//! What the user may do on a node: what locks do there, tried on names of its own.

use std::time::Duration;

use redquorum::unstable_redis::redis::{PushInfo, PushKind, Value, cmd};
use uuid::Uuid;

use crate::{
    connect::{Disconnected, NodeConnection, Reply},
    doctor::facts::{Access, Trial},
    stopwatch,
};

/// Tries every command. A script, as in a lock: it is atomic, so nobody sees what it wrote and
/// deleted.
const PROBE: &str = include_str!("probe.lua");

/// Notices arrive within a round trip.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) async fn ask(connection: &mut NodeConnection) -> Result<Access, Disconnected> {
    let name = format!("redquorum:doctor:{}", Uuid::new_v4().simple());
    let channel = format!("redisson_lock__channel:{{{name}}}");
    let subscribed = connection.subscribe(&channel).await?;
    let by_text: Reply<i64> = connection.ask(cmd("EVAL").arg("return 1").arg(0)).await?;
    let loads: Reply<String> = connection.ask(cmd("SCRIPT").arg("LOAD").arg(PROBE)).await?;
    let (by_hash, failed) = match &loads {
        Ok(hash) => {
            let failed = probe(connection, "EVALSHA", hash, &name, &channel).await?;
            (failed.as_ref().map(drop).map_err(Clone::clone), failed)
        }
        Err(words) => (Err(words.clone()), Err(words.clone())),
    };
    let failed = match failed {
        Ok(failed) => Ok(failed),
        Err(_) => probe(connection, "EVAL", PROBE, &name, &channel).await?,
    };
    let notices = match (subscribed, &failed) {
        (Err(words), _) => Err(words),
        (Ok(()), Err(_)) => Err("no script runs that could publish one".to_owned()),
        (Ok(()), Ok(failed)) if failed.iter().any(|(command, _)| command == "publish") => {
            Err("publish is forbidden".to_owned())
        }
        (Ok(()), Ok(_)) => arrival(connection, &channel).await,
    };
    Ok(Access {
        by_text: by_text.map(drop),
        loads: loads.map(drop),
        by_hash,
        trial: failed.map(sorted),
        notices,
    })
}

/// What failed for want of a permission, and what for other reasons.
fn sorted(failed: Vec<(String, String)>) -> Trial {
    let (mut forbidden, others): (Vec<_>, Vec<_>) =
        failed.into_iter().partition(|(_, words)| is_about_permission(words));
    // `set` is tried on two keys.
    forbidden.dedup_by(|one, other| one.0 == other.0);
    Trial { forbidden, failure: others.into_iter().next().map(|(_, words)| words) }
}

/// Runs the probe: which commands fail, and with what words.
async fn probe(
    connection: &mut NodeConnection,
    how: &str,
    script: &str,
    name: &str,
    channel: &str,
) -> Result<Reply<Vec<(String, String)>>, Disconnected> {
    let call = cmd(how).arg(script).arg(0).arg(name).arg(channel).to_owned();
    let reply: Reply<Vec<String>> = connection.ask(&call).await?;
    Ok(reply.map(|words| {
        let pairs = words.chunks_exact(2);
        pairs.filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone()))).collect()
    }))
}

/// Waits for what the probe has published.
async fn arrival(connection: &mut NodeConnection, channel: &str) -> Reply<()> {
    let is_notice = |push: &PushInfo| match (&push.kind, push.data.as_slice()) {
        (PushKind::Message, [Value::BulkString(from), ..]) => from == channel.as_bytes(),
        _ => false,
    };
    let arriving = async {
        while let Some(push) = connection.heard().await {
            if is_notice(&push) {
                return true;
            }
        }
        false
    };
    match stopwatch::within(PATIENCE, arriving).await {
        Some(true) => Ok(()),
        _ => Err("nothing came of what was published".to_owned()),
    }
}

/// To a script, a permission that is missing is said in words: by Redis up to 7.0 in those of the
/// second line, by later ones and by Valkey in those of the third.
fn is_about_permission(words: &str) -> bool {
    words.contains("NOPERM")
        || words.contains("The user executing the script can't")
        || words.contains("ACL failure in script: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_permission_is_told_from_other_errors() {
        for words in [
            "NOPERM this user has no permissions to run the 'set' command",
            "@user_script: 9: -NOPERM this user has no permissions",
            "ERR The user executing the script can't run this command or subcommand script: abc",
            "The user executing the script can't access at least one of the keys",
            "ERR ACL failure in script: User u has no permissions to run the 'set' command",
        ] {
            assert!(is_about_permission(words), "{words}");
        }
        for words in ["OOM command not allowed", "READONLY You can't write against a read only replica."] {
            assert!(!is_about_permission(words), "{words}");
        }
    }
}
