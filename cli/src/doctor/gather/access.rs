//! The permissions of the user on a node. Every command of the library's script is tried on reserved keys. Every kind
//! of key is tried without a change of the key.

use std::{collections::HashMap, time::Duration};

use redquorum::{
    __command::{channels_of, keys_of},
    unstable_redis::redis::{PushInfo, PushKind, Value, cmd},
};
use uuid::Uuid;

use crate::{
    connect::{Disconnected, NodeConnection, Reply},
    doctor::{
        facts::{Access, CommandTrial, LockKeys, NoticeFailure, NoticePermission, RefusedNotice},
        refusal::Cause,
    },
    name, stopwatch,
};

/// The script that tries every command. In a script, the server checks permissions as in the library's script. A script
/// is atomic, so other clients do not see its keys.
const PROBE: &str = include_str!("probe.lua");

/// The script that tries every kind of key.
const KEYS: &str = include_str!("keys.lua");

/// The time limit for the arrival of a published notice, which usually takes a round trip.
const NOTICE_TIMEOUT: Duration = Duration::from_secs(1);

/// Returns the permissions of the user for locks with the names in `names`, or for locks with any name if `names` is
/// empty.
pub(super) async fn query(
    connection: &mut NodeConnection,
    names: &[Vec<u8>],
) -> Result<Access, Disconnected> {
    let name = connection.key(format!("redquorum:doctor:{}", Uuid::new_v4().simple()));
    let name = String::from_utf8_lossy(&name).into_owned();
    // One channel of each kind, because a user may have only some of the kinds.
    let channels =
        channels_of(format!("doctor:{}", Uuid::new_v4().simple()), connection.hash_tag()).unwrap_or_default();
    let mut subscribed = Ok(());
    for channel in &channels {
        let subscribed_to_this = connection.subscribe(channel).await?;
        subscribed = subscribed.and(subscribed_to_this);
    }
    let by_text: Reply<i64> = connection.query(cmd("EVAL").arg("return 1").arg(0)).await?;
    let loads: Reply<String> = connection.query(cmd("SCRIPT").arg("LOAD").arg(PROBE)).await?;
    let (by_hash, failed) = match &loads {
        Ok(hash) => {
            let failed = probe(connection, "EVALSHA", hash, &name, &channels).await?;
            (failed.as_ref().map(drop).map_err(Clone::clone), failed)
        }
        Err(text) => (by_unknown_hash(connection).await?, Err(text.clone())),
    };
    let failed = match failed {
        Ok(failed) => Ok(failed),
        Err(_) => probe(connection, "EVAL", PROBE, &name, &channels).await?,
    };
    let refused = refused_notices(subscribed.err(), failed.as_deref().unwrap_or_default());
    let notices = if !refused.is_empty() {
        Err(NoticeFailure::Refused(refused))
    } else if failed.is_err() {
        Err(NoticeFailure::Other("no script runs, so no notice was published".to_owned()))
    } else {
        arrival(connection, &channels).await.map_err(NoticeFailure::Other)
    };
    // After the arrival, because a subscription has to last until then.
    let unsubscribed = connection.unsubscribe(&name).await?;
    let notices = with_unsubscription(notices, unsubscribed.err());
    let (lacking_keys, lock_keys) = match &failed {
        Ok(_) => try_keys(connection, names).await?,
        Err(text) => (Vec::new(), Err(text.clone())),
    };
    Ok(Access {
        by_text: by_text.map(drop),
        loads: loads.map(drop),
        by_hash,
        trial: failed.map(trial),
        lacking_keys,
        lock_keys,
        notices,
    })
}

/// Returns the refused commands of notices: `subscribed` is the error of subscribing, and `failed` has the commands
/// that failed in the probe.
fn refused_notices(subscribed: Option<String>, failed: &[(String, String)]) -> Vec<RefusedNotice> {
    let published = failed.iter().find(|(command, _)| command == "publish").map(|(_, text)| text.clone());
    let refused = [("subscribe", subscribed), ("publish", published)];
    refused
        .into_iter()
        .filter_map(|(command, text)| {
            let text = text?;
            let missing = match Cause::of(&text) {
                Cause::Channels => Some(NoticePermission::Channel),
                cause if cause.is_permission() => Some(NoticePermission::Command),
                _ => None,
            };
            Some(RefusedNotice { command, missing, text })
        })
        .collect()
}

/// Adds the refusal of `unsubscribe` to the result of the other commands of notices.
fn with_unsubscription(
    notices: Result<(), NoticeFailure>,
    unsubscribed: Option<String>,
) -> Result<(), NoticeFailure> {
    let Some(text) = unsubscribed else { return notices };
    let missing = Cause::of(&text).is_permission().then_some(NoticePermission::Command);
    let refused = RefusedNotice { command: "unsubscribe", missing, text };
    Err(match notices {
        Ok(()) => NoticeFailure::Refused(vec![refused]),
        Err(NoticeFailure::Refused(others)) => {
            NoticeFailure::Refused(others.into_iter().chain([refused]).collect())
        }
        Err(NoticeFailure::Other(text)) => NoticeFailure::Other(text),
    })
}

/// Returns whether the user may run scripts by their hash, if no script could be loaded. If the user may, the server
/// reports that it has no script of this hash.
async fn by_unknown_hash(connection: &mut NodeConnection) -> Result<Reply<()>, Disconnected> {
    const UNKNOWN_HASH: &str = "0000000000000000000000000000000000000000";
    let reply: Reply<i64> = connection.query(cmd("EVALSHA").arg(UNKNOWN_HASH).arg(0)).await?;
    Ok(match reply {
        Err(text) if !text.starts_with("NOSCRIPT") => Err(text),
        _ => Ok(()),
    })
}

/// Returns the refused commands of the probe. The probe tries some commands several times, but each command is returned
/// once. `publish` is left out, because locks work without notices.
fn trial(failed: Vec<(String, String)>) -> CommandTrial {
    let mut refused: Vec<(String, String)> = Vec::new();
    for (command, text) in failed {
        if command != "publish" && refused.iter().all(|(known, _)| *known != command) {
            refused.push((command, text));
        }
    }
    CommandTrial { refused }
}

/// Tries the keys of the library and of locks. Returns the patterns of library keys that the user lacks, and the keys
/// of locks that the user may use.
async fn try_keys(
    connection: &mut NodeConnection,
    names: &[Vec<u8>],
) -> Result<(Vec<(String, String)>, Reply<LockKeys>), Disconnected> {
    let unique = Uuid::new_v4().simple().to_string();
    let any_name = [format!("doctor:{unique}").into_bytes()];
    let tried = if names.is_empty() { &any_name[..] } else { names };
    // `doctor` has checked the names before, so every name has keys.
    let own: Vec<Vec<u8>> =
        tried.iter().filter_map(|name| keys_of(name, connection.hash_tag()).ok()).flatten().collect();
    let locks: Vec<Vec<u8>> = tried.iter().map(|name| connection.key(name)).collect();
    let mut call = cmd("EVAL");
    call.arg(KEYS).arg(0).arg(&unique).arg(&locks).arg(&own);
    let reply: Reply<Vec<Vec<u8>>> = connection.query(&call).await?;
    let refused: HashMap<Vec<u8>, String> = match reply {
        Ok(reply) => {
            let pairs = reply.chunks_exact(2);
            let pairs = pairs.filter_map(|pair| Some((pair.first()?, String::from_utf8_lossy(pair.get(1)?))));
            pairs.map(|(key, text)| (key.clone(), text.into_owned())).collect()
        }
        Err(text) => return Ok((Vec::new(), Err(text))),
    };
    let text_of = |key: &Vec<u8>, causes: &[Cause]| {
        refused.get(key).filter(|text| causes.contains(&Cause::of(text))).cloned()
    };
    let mut lacking: Vec<(String, String)> = Vec::new();
    let tag = connection.hash_tag().unwrap_or_default().to_owned();
    for key in &own {
        let pattern = if key.starts_with(b"redisson_lock_token:") {
            format!("~redisson_lock_token:{tag}*")
        } else if tag.is_empty() || !key.starts_with(b"redquorum:") {
            format!("~{tag}redquorum:*")
        } else {
            // A tombstone, which has the tag behind its prefix.
            format!("~redquorum:tombstone:{tag}*")
        };
        if let Some(text) = text_of(key, &[Cause::Keys])
            && lacking.iter().all(|(known, _)| *known != pattern)
        {
            lacking.push((pattern, text));
        }
    }
    let lock_keys = if names.is_empty() {
        match locks.iter().find_map(|key| text_of(key, &[Cause::Keys])) {
            None => LockKeys::All,
            Some(_) => LockKeys::Some(patterns(connection).await?),
        }
    } else {
        let result = |key: &Vec<u8>| text_of(key, &[Cause::Keys, Cause::WrongType]).map_or(Ok(()), Err);
        LockKeys::Named(
            names.iter().zip(&locks).map(|(name, key)| (name::shown(name), result(key))).collect(),
        )
    };
    Ok((lacking, Ok(lock_keys)))
}

/// Returns the patterns of the keys that the user may use. Returns `None` if the user may not read its own permissions,
/// or has several sets of permissions (selectors).
async fn patterns(connection: &mut NodeConnection) -> Result<Option<Vec<String>>, Disconnected> {
    let user: Reply<String> = connection.query(cmd("ACL").arg("WHOAMI")).await?;
    let Ok(user) = user else { return Ok(None) };
    let fields: Reply<HashMap<String, Value>> = connection.query(cmd("ACL").arg("GETUSER").arg(user)).await?;
    let Ok(fields) = fields else { return Ok(None) };
    if matches!(fields.get("selectors"), Some(Value::Array(selectors)) if !selectors.is_empty()) {
        return Ok(None);
    }
    let text = |value: &Value| match value {
        Value::BulkString(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Value::SimpleString(text) => Some(text.clone()),
        _ => None,
    };
    Ok(match fields.get("keys") {
        // Before version 7, the patterns are a list without the mark `~`.
        Some(Value::Array(keys)) => Some(keys.iter().filter_map(text).map(|key| format!("~{key}")).collect()),
        Some(keys) => text(keys).map(|keys| keys.split_whitespace().map(str::to_owned).collect()),
        None => None,
    })
}

/// Runs the probe with EVAL or EVALSHA, and returns the commands that failed in the script, with the error texts.
async fn probe(
    connection: &mut NodeConnection,
    eval: &str,
    script: &str,
    name: &str,
    channels: &[String],
) -> Result<Reply<Vec<(String, String)>>, Disconnected> {
    let call = cmd(eval).arg(script).arg(0).arg(name).arg(channels).to_owned();
    let reply: Reply<Vec<String>> = connection.query(&call).await?;
    Ok(reply.map(|texts| {
        let pairs = texts.chunks_exact(2);
        pairs.filter_map(|pair| Some((pair.first()?.clone(), pair.get(1)?.clone()))).collect()
    }))
}

/// Waits until a notice arrives that the probe published.
async fn arrival(connection: &mut NodeConnection, channels: &[String]) -> Reply<()> {
    let is_notice = |push: &PushInfo| match (&push.kind, push.data.as_slice()) {
        (PushKind::Message, [Value::BulkString(from), ..]) => {
            channels.iter().any(|channel| channel.as_bytes() == from)
        }
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

#[cfg(test)]
mod tests {
    use redquorum::__command::script_commands;

    use super::*;

    /// The texts of Redis 6.2.5, 7.0.15 and 8.2.3 and of Valkey 9.1.2.
    #[test]
    fn a_refused_notice_lacks_a_command_a_channel_or_no_permission() {
        let missing = |subscribed: Option<&str>, published: Option<&str>| {
            let failed: Vec<_> =
                published.map(|text| ("publish".to_owned(), text.to_owned())).into_iter().collect();
            let refused = refused_notices(subscribed.map(str::to_owned), &failed);
            refused.into_iter().map(|refused| (refused.command, refused.missing)).collect::<Vec<_>>()
        };
        let (command, channel) = (Some(NoticePermission::Command), Some(NoticePermission::Channel));
        assert!(missing(None, None).is_empty());
        for (text, expected) in [
            ("The user executing the script can't publish to the channel mentioned in the command", channel),
            ("ERR ACL failure in script: No permissions to access a channel", channel),
            ("@user_script: 9: The user executing the script can't run this command or subcommand", command),
            ("ERR ACL failure in script: User u has no permissions to run the 'publish' command", command),
            ("ERR Unknown Redis command called from script", None),
        ] {
            assert_eq!(missing(None, Some(text)), [("publish", expected)], "{text}");
        }
        for (text, expected) in [
            ("NOPERM this user has no permissions to access one of the channels used as arguments", channel),
            ("NOPERM No permissions to access a channel", channel),
            ("NOPERM User u has no permissions to run the 'subscribe' command", command),
            ("ERR unknown command 'SUBSCRIBE', with args beginning with: 'a'", None),
        ] {
            assert_eq!(missing(Some(text), None), [("subscribe", expected)], "{text}");
        }
    }

    /// If the probe did not try a command, `doctor` would report a sound quorum without the permission for it.
    #[test]
    fn the_probe_tries_every_command_of_the_script() {
        let tried = |command: &str| PROBE.contains(&format!("try('{command}'"));
        let missing: Vec<String> = script_commands().into_iter().filter(|command| !tried(command)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        assert!(script_commands().len() > 20, "{:?}", script_commands());
    }

    #[test]
    fn the_documented_permissions_have_every_command_of_the_script() {
        let page = include_str!("../../../../docs/REDIS.md");
        let rules =
            page.split("ACL SETUSER redquorum").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let rules: Vec<&str> = rules.split_whitespace().collect();
        // Only listings need SCAN, so the page names this permission separately.
        let commands = script_commands();
        for command in commands.iter().filter(|command| *command != "scan") {
            assert!(rules.contains(&&*format!("+{command}")), "{command} is not in {rules:?}");
        }
        assert!(page.contains("`+scan`"));
    }

    #[test]
    fn a_command_that_is_refused_twice_is_reported_once() {
        let failed = ["set", "set", "time"].map(|command| (command.to_owned(), "why".to_owned()));
        let refused = trial(failed.to_vec()).refused;
        assert_eq!(refused.iter().map(|(command, _)| &**command).collect::<Vec<_>>(), ["set", "time"]);
    }
}
