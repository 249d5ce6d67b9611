//! The permissions of the user on a node, and the writes that the node accepts.

use crate::doctor::{
    facts::{Access, CommandTrial, NoticeFailure, NoticePermission, RefusedNotice},
    finding::Finding,
};

/// The commands of the wait queue. Without them, waiters poll all nodes, and get the lock in no order.
const QUEUE_COMMANDS: [&str; 5] = ["zadd", "zrange", "zrank", "zrem", "zscore"];

pub(super) fn judge(access: &Access) -> Vec<Finding> {
    let mut findings = vec![scripts(access), notices(access)];
    match &access.trial {
        Ok(trial) => findings.extend([permissions(trial), waiting(trial), writes(trial)]),
        Err(text) => {
            let unknown = |check| Finding::unknown(check, text, "first allow scripts, then check again");
            findings.extend(["permissions", "waiting", "writes"].map(unknown));
        }
    }
    findings
}

fn permissions(trial: &CommandTrial) -> Finding {
    let forbidden = trial.forbidden.iter().filter(|(command, _)| !is_for_waiting(command));
    let missing: Vec<_> = forbidden.collect();
    let Some((_, text)) = missing.first() else {
        return Finding::ok("permissions", "all commands and keys of locks");
    };
    let found = format!("forbidden: {} ({text})", names(missing.iter().map(|(name, _)| name)));
    let advice = format!(
        "ACL SETUSER ... {}, or allow the keys that docs/REDIS.md lists",
        rules(missing.iter().map(|(name, _)| name))
    );
    Finding::fail("permissions", found, advice)
}

fn waiting(trial: &CommandTrial) -> Finding {
    let missing: Vec<_> = trial
        .forbidden
        .iter()
        .map(|(command, _)| command)
        .filter(|command| is_for_waiting(command))
        .collect();
    if missing.is_empty() {
        return Finding::ok("waiting", "all commands of the wait queue");
    }
    let found = format!("forbidden commands of the wait queue: {}", names(missing.iter().copied()));
    let advice = format!("ACL SETUSER ... {}: without them, waiters poll", rules(missing.iter().copied()));
    Finding::warn("waiting", found, advice)
}

fn scripts(access: &Access) -> Finding {
    let parts = [("eval", &access.by_text), ("script|load", &access.loads), ("evalsha", &access.by_hash)];
    let failed: Vec<_> =
        parts.iter().filter_map(|(name, reply)| Some((*name, reply.as_ref().err()?))).collect();
    let Some((_, text)) = failed.first() else {
        return Finding::ok("scripts", "run by text and by hash");
    };
    let found = format!("do not work: {} ({text})", names(failed.iter().map(|(name, _)| name)));
    let advice = format!("ACL SETUSER ... {}", rules(failed.iter().map(|(name, _)| name)));
    Finding::fail("scripts", found, advice)
}

fn notices(access: &Access) -> Finding {
    match &access.notices {
        Ok(()) => Finding::ok("notices", "arrive"),
        Err(NoticeFailure::Refused(refused)) => {
            let shown: Vec<_> = refused
                .iter()
                .map(|RefusedNotice { command, text, .. }| format!("{command}: {text}"))
                .collect();
            let found = format!("are refused ({}): waiters poll", shown.join("; "));
            Finding::warn("notices", found, notice_remedy(refused))
        }
        Err(NoticeFailure::Other(text)) => Finding::warn(
            "notices",
            format!("do not arrive ({text}): waiters poll"),
            "connect to the server itself, or through a proxy that passes scripts and pushed messages on",
        ),
    }
}

/// Returns the missing permissions, each once, or the setting by which the server itself refuses.
fn notice_remedy(refused: &[RefusedNotice]) -> String {
    let mut rules: Vec<&str> = refused
        .iter()
        .filter_map(|refused| match refused.missing? {
            NoticePermission::Channel => Some("&redisson_lock__channel:*"),
            NoticePermission::Command if refused.command == "subscribe" => Some("+subscribe +unsubscribe"),
            NoticePermission::Command => Some("+publish"),
        })
        .collect();
    rules.dedup();
    let renamed = refused.iter().filter(|refused| refused.missing.is_none());
    let settings = renamed.map(|refused| {
        format!("let the server run `{}` under its own name (`rename-command`)", refused.command)
    });
    let acl = (!rules.is_empty()).then(|| format!("ACL SETUSER ... {}", rules.join(" ")));
    acl.into_iter().chain(settings).collect::<Vec<_>>().join("; ")
}

fn writes(trial: &CommandTrial) -> Finding {
    match &trial.failure {
        None => Finding::ok("writes", "are accepted"),
        Some(text) => Finding::fail(
            "writes",
            format!("are refused: {text}"),
            "READONLY: name a master; MISCONF: let the server write to its disk; OOM: give it more memory; \
             NOREPLICAS: start a replica",
        ),
    }
}

fn is_for_waiting(command: &str) -> bool {
    QUEUE_COMMANDS.contains(&command)
}

fn names(commands: impl Iterator<Item = impl AsRef<str>>) -> String {
    commands.map(|command| command.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}

fn rules(commands: impl Iterator<Item = impl AsRef<str>>) -> String {
    commands.map(|command| format!("+{}", command.as_ref())).collect::<Vec<_>>().join(" ")
}
