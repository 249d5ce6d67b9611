//! The findings about the permissions of the user on a node, and about the writes that the node accepts.

use std::collections::BTreeSet;

use crate::doctor::{
    facts::{Access, CommandTrial, LockKeys, NoticeFailure, NoticePermission, RefusedNotice},
    finding::Finding,
    refusal::{Cause, acl, remedy},
};

/// The beginnings of the names of the commands that only wait queues and readers need.
const QUEUE_COMMANDS: [&str; 2] = ["z", "pexpireat"];

/// The commands without which a node still grants locks. `incr` only makes locks faster, a failed lock needs `decr`, an
/// unlock needs `hdel`, a force-unlock needs `del`, and an inspection needs `hgetall`.
const NOT_NEEDED_TO_VOTE: [&str; 5] = ["incr", "decr", "hdel", "del", "hgetall"];

/// The command that only listings need.
const LISTING_COMMAND: &str = "scan";

/// The prefixes of names that no lock has.
const RESERVED: [&str; 3] = ["redquorum:", "redisson_lock_token:", "redisson_lock__channel:"];

/// The keys of the library.
const OWN_KEYS: &str = "~redquorum:*";

pub(super) fn judge(access: &Access) -> Vec<Finding> {
    let mut findings = vec![scripts(access), notices(access)];
    match &access.trial {
        Ok(trial) => findings.extend([
            permissions(trial, &access.lacking_keys),
            waiting(trial),
            commands(trial),
            listing(trial),
            writes(trial),
        ]),
        Err(text) => {
            let advice = match Cause::of(text).is_permission() {
                true => "first allow scripts, then check again".to_owned(),
                false => remedy(text, "evalsha", OWN_KEYS),
            };
            let unknown = |check| Finding::unknown(check, text, advice.clone());
            findings.extend(["permissions", "waiting", "commands", "listing", "writes"].map(unknown));
        }
    }
    findings.push(lock_keys(&access.lock_keys));
    findings
}

/// Whether the node grants no lock to the user, because a permission that every vote needs is missing. A missing
/// permission for `INFO` is judged by the restart guard.
pub(super) fn prevents_votes(access: &Access) -> bool {
    // A user that cannot load the script may still run it by its hash.
    let runs_scripts = access.by_hash.is_ok() && (access.by_text.is_ok() || access.loads.is_ok());
    let Ok(trial) = &access.trial else { return true };
    let is_needed =
        |command: &str| is_for_locks(command) && command != "info" && !NOT_NEEDED_TO_VOTE.contains(&command);
    let lacks_command = trial.of_cause(Cause::Command).any(|(command, _)| is_needed(command));
    let lacks_key = trial.of_cause(Cause::Keys).next().is_some() || !access.lacking_keys.is_empty();
    !runs_scripts || lacks_command || lacks_key
}

/// Judges the commands and keys that every lock needs.
fn permissions(trial: &CommandTrial, lacking_keys: &[(String, String)]) -> Finding {
    let commands = trial.of_cause(Cause::Command).filter(|(command, _)| is_for_locks(command));
    let mut missing: Vec<(String, String, &str)> =
        commands.map(|(command, text)| (command.to_owned(), format!("+{command}"), text)).collect();
    missing.extend(lacking_keys.iter().map(|(keys, text)| (keys.clone(), keys.clone(), &**text)));
    if lacking_keys.is_empty()
        && let Some((_, text)) = trial.of_cause(Cause::Keys).next()
    {
        missing.push((OWN_KEYS.to_owned(), OWN_KEYS.to_owned(), text));
    }
    let Some((.., text)) = missing.first() else {
        return Finding::ok("permissions", "all commands and keys of the library");
    };
    let names: Vec<&str> = missing.iter().map(|(name, ..)| &**name).collect();
    let found = format!("forbidden: {} ({text})", names.join(", "));
    let rules: Vec<String> = missing.iter().map(|(_, rule, _)| rule.clone()).collect();
    Finding::fail("permissions", found, acl(&rules))
}

/// Judges the commands of wait queues and readers.
fn waiting(trial: &CommandTrial) -> Finding {
    let refused = trial.of_cause(Cause::Command).filter(|(command, _)| is_for_waiting(command));
    let (names, texts): (Vec<&str>, Vec<&str>) = refused.unzip();
    let Some(text) = texts.first() else {
        return Finding::ok("waiting", "all commands of wait queues and readers");
    };
    let rules: Vec<String> = names.iter().map(|name| format!("+{name}")).collect();
    let found = format!("{}: {} ({text})", effect_on_waiting(&names), names.join(", "));
    Finding::fail("waiting", found, acl(&rules))
}

/// Returns the effect of missing commands of wait queues and readers.
fn effect_on_waiting(missing: &[&str]) -> &'static str {
    let is_missing = |commands: [&str; 2]| commands.iter().any(|command| missing.contains(command));
    if is_missing(["zadd", "pexpireat"]) {
        "clients that read are refused, and clients that wait poll in no order"
    } else if is_missing(["zrem", "zrange"]) {
        "the keys of readers stay until their ttl ends, because unlocks of readers fail, and clients that wait poll in no \
         order"
    } else {
        "clients that wait poll in no order"
    }
}

/// Judges whether the server has all commands.
fn commands(trial: &CommandTrial) -> Finding {
    let refused = trial.of_cause(Cause::UnknownCommand).filter(|(command, _)| *command != LISTING_COMMAND);
    let (names, texts): (Vec<&str>, Vec<&str>) = refused.unzip();
    let Some((name, text)) = names.first().zip(texts.first()) else {
        return Finding::ok("commands", "the server has all commands");
    };
    let found = format!("missing on the server: {} ({text})", names.join(", "));
    Finding::fail("commands", found, remedy(text, name, OWN_KEYS))
}

/// Judges the command of `redquorum list` and `top`, which locks do not need.
fn listing(trial: &CommandTrial) -> Finding {
    let of_listing = trial.refused.iter().find(|(command, _)| command == LISTING_COMMAND);
    match of_listing.filter(|(_, text)| matches!(Cause::of(text), Cause::Command | Cause::UnknownCommand)) {
        None => Finding::ok("listing", "`redquorum list` and `top` can list locks"),
        Some((command, text)) => {
            let found = format!("`redquorum list` and `top` cannot list locks ({text})");
            Finding::warn("listing", found, remedy(text, command, OWN_KEYS))
        }
    }
}

/// Judges whether the server accepts writes. Other checks report missing permissions and unknown commands.
fn writes(trial: &CommandTrial) -> Finding {
    let is_other = |text: &str| !Cause::of(text).is_permission() && Cause::of(text) != Cause::UnknownCommand;
    match trial.refused.iter().find(|(_, text)| is_other(text)) {
        None => Finding::ok("writes", "the server accepts writes"),
        Some((command, text)) => Finding::fail(
            "writes",
            format!("the server refuses writes: {text}"),
            remedy(text, command, OWN_KEYS),
        ),
    }
}

/// Judges the keys of locks. Only the users of locks know the names, so the user may give names to check.
fn lock_keys(keys: &Result<LockKeys, String>) -> Finding {
    const CHECK: &str = "keys";
    match keys {
        Err(text) => Finding::unknown(CHECK, text, "first correct the failure of scripts, then check again"),
        Ok(LockKeys::All) => Finding::ok(CHECK, "locks of all names"),
        Ok(LockKeys::Some(None)) => Finding::unknown(
            CHECK,
            "the user may not use every key",
            "check the names of your locks: `redquorum doctor NAME`",
        ),
        Ok(LockKeys::Some(Some(patterns))) => {
            let of_locks: Vec<&str> =
                patterns.iter().map(|pattern| &**pattern).filter(|pattern| may_match_lock(pattern)).collect();
            if of_locks.is_empty() {
                let found = format!("the user may use no key of a lock, only {}", patterns.join(" "));
                return Finding::fail(
                    CHECK,
                    found,
                    "ACL SETUSER ... ~lock:*, with the pattern of your locks",
                );
            }
            Finding::ok(CHECK, format!("only locks with names of the pattern {}", of_locks.join(" ")))
        }
        Ok(LockKeys::Named(names)) => named_keys(CHECK, names),
    }
}

fn named_keys(check: &'static str, names: &[(String, Result<(), String>)]) -> Finding {
    let refused: Vec<(&str, &str)> =
        names.iter().filter_map(|(name, result)| Some((&**name, &**result.as_ref().err()?))).collect();
    let Some((_, text)) = refused.first() else {
        let names: Vec<&str> = names.iter().map(|(name, _)| &**name).collect();
        return Finding::ok(check, format!("the user may lock {}", names.join(", ")));
    };
    let shown: Vec<&str> = refused.iter().map(|(name, _)| *name).collect();
    let found = format!("the user cannot lock {} ({text})", shown.join(", "));
    let is_lacking = |(_, text): &&(&str, &str)| Cause::of(text) == Cause::Keys;
    let rules: Vec<String> = refused.iter().filter(is_lacking).map(|(name, _)| format!("~{name}")).collect();
    let advice = match &*rules {
        [] => remedy(text, "hdel", OWN_KEYS),
        rules => format!("{}, or a pattern of these names", acl(rules)),
    };
    Finding::fail(check, found, advice)
}

/// Whether a pattern of permitted keys allows reads and writes, and may match the name of a lock.
fn may_match_lock(pattern: &str) -> bool {
    let Some(pattern) = pattern.strip_prefix('~') else { return false };
    let literal = pattern.split(['*', '?', '[', '\\']).next().unwrap_or_default();
    RESERVED.iter().all(|reserved| !literal.starts_with(reserved))
}

fn scripts(access: &Access) -> Finding {
    let parts = [("eval", &access.by_text), ("script|load", &access.loads), ("evalsha", &access.by_hash)];
    let failed: Vec<_> =
        parts.iter().filter_map(|(name, reply)| Some((*name, reply.as_ref().err()?))).collect();
    let Some((command, text)) = failed.first() else {
        return Finding::ok("scripts", "scripts run by text and by hash");
    };
    let names: Vec<&str> = failed.iter().map(|(name, _)| *name).collect();
    // A server keeps the script until its restart, so it grants locks to a user that cannot load the script.
    let effect = match access.by_hash.is_ok() && access.loads.is_err() {
        true => ": a server without the script, such as after a restart, grants no lock",
        false => "",
    };
    let found = format!("scripts do not work: {} ({text}){effect}", names.join(", "));
    let forbidden = failed.iter().filter(|(_, text)| Cause::of(text) == Cause::Command);
    let rules: Vec<String> = forbidden.map(|(name, _)| format!("+{name}")).collect();
    let advice = if rules.is_empty() { remedy(text, command, OWN_KEYS) } else { acl(&rules) };
    Finding::fail("scripts", found, advice)
}

fn notices(access: &Access) -> Finding {
    match &access.notices {
        Ok(()) => Finding::ok("notices", "notices arrive"),
        Err(NoticeFailure::Refused(refused)) => {
            let shown: Vec<_> = refused
                .iter()
                .map(|RefusedNotice { command, text, .. }| format!("{command}: {text}"))
                .collect();
            let arrive = refused.iter().all(|refused| refused.command == "unsubscribe");
            let effect = if arrive { "channels stay subscribed" } else { "waiters poll" };
            let found = format!("notices are refused ({}): {effect}", shown.join("; "));
            Finding::warn("notices", found, notice_remedy(refused))
        }
        Err(NoticeFailure::Other(text)) => Finding::warn(
            "notices",
            format!("notices do not arrive ({text}): waiters poll"),
            "connect to the server itself, or through a proxy that passes scripts and pushed messages on",
        ),
    }
}

/// Returns the command that grants the missing permissions, or the setting to change if the server does not have a
/// command under its own name, or both.
fn notice_remedy(refused: &[RefusedNotice]) -> String {
    let mut rules: Vec<&str> = refused
        .iter()
        .filter_map(|refused| match refused.missing? {
            NoticePermission::Channel => Some("&redisson_lock__channel:*"),
            NoticePermission::Command if refused.command == "publish" => Some("+publish"),
            NoticePermission::Command => Some("+subscribe +unsubscribe"),
        })
        .collect();
    let mut known = BTreeSet::new();
    rules.retain(|rule| known.insert(*rule));
    let renamed = refused.iter().filter(|refused| refused.missing.is_none());
    let settings = renamed.map(|refused| {
        format!("let the server run `{}` under its own name (`rename-command`)", refused.command)
    });
    let acl = (!rules.is_empty()).then(|| format!("ACL SETUSER ... {}", rules.join(" ")));
    acl.into_iter().chain(settings).collect::<Vec<_>>().join("; ")
}

impl CommandTrial {
    /// Returns the refused commands with this cause.
    fn of_cause(&self, cause: Cause) -> impl Iterator<Item = (&str, &str)> {
        let refused = self.refused.iter().filter(move |(_, text)| Cause::of(text) == cause);
        refused.map(|(command, text)| (&**command, &**text))
    }
}

fn is_for_waiting(command: &str) -> bool {
    QUEUE_COMMANDS.iter().any(|beginning| command.starts_with(beginning))
}

fn is_for_locks(command: &str) -> bool {
    !is_for_waiting(command) && command != LISTING_COMMAND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_of_reserved_names_matches_no_lock() {
        for (pattern, expected) in [
            ("~*", true),
            ("~lock:*", true),
            ("~job", true),
            ("~redq*", true),
            ("~[l]ock", true),
            ("~redquorum:*", false),
            ("~redquorum:node", false),
            ("~redisson_lock_token:*", false),
            ("%R~lock:*", false),
        ] {
            assert_eq!(may_match_lock(pattern), expected, "{pattern}");
        }
    }
}
