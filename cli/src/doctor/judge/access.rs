//! What the user may do on a node, and whether the node does it.

use crate::doctor::{
    facts::{Access, Trial},
    finding::Finding,
};

/// Commands without which no client can use the wait queue: a waiter polls all nodes, and is served
/// in no order.
const FOR_WAITING: [&str; 5] = ["zadd", "zrange", "zrank", "zrem", "zscore"];

pub(super) fn judge(access: &Access) -> Vec<Finding> {
    let mut findings = vec![scripts(access), notices(access)];
    match &access.trial {
        Ok(trial) => findings.extend([permissions(trial), waiting(trial), writes(trial)]),
        Err(words) => {
            let untold = |check| Finding::unknown(check, words, "let scripts run first");
            findings.extend(["permissions", "waiting", "writes"].map(untold));
        }
    }
    findings
}

fn permissions(trial: &Trial) -> Finding {
    let forbidden = trial.forbidden.iter().filter(|(command, _)| !is_for_waiting(command));
    let missing: Vec<_> = forbidden.collect();
    let Some((_, words)) = missing.first() else {
        return Finding::ok("permissions", "all that locks need");
    };
    let found = format!("forbidden: {} ({words})", names(missing.iter().map(|(name, _)| name)));
    let advice = format!(
        "ACL SETUSER ... {}, or the keys that docs/REDIS.md lists",
        rules(missing.iter().map(|(name, _)| name))
    );
    Finding::fail("permissions", found, advice)
}

fn waiting(trial: &Trial) -> Finding {
    let missing: Vec<_> = trial
        .forbidden
        .iter()
        .map(|(command, _)| command)
        .filter(|command| is_for_waiting(command))
        .collect();
    if missing.is_empty() {
        return Finding::ok("waiting", "all that the wait queue needs");
    }
    let found = format!("forbidden, of what the wait queue needs: {}", names(missing.iter().copied()));
    let advice = format!("ACL SETUSER ... {}, or waiters poll", rules(missing.iter().copied()));
    Finding::warn("waiting", found, advice)
}

fn scripts(access: &Access) -> Finding {
    let parts = [("eval", &access.by_text), ("script|load", &access.loads), ("evalsha", &access.by_hash)];
    let failed: Vec<_> =
        parts.iter().filter_map(|(name, reply)| Some((*name, reply.as_ref().err()?))).collect();
    let Some((_, words)) = failed.first() else {
        return Finding::ok("scripts", "run by text and by hash");
    };
    let found = format!("do not work: {} ({words})", names(failed.iter().map(|(name, _)| name)));
    let advice = format!("ACL SETUSER ... {}", rules(failed.iter().map(|(name, _)| name)));
    Finding::fail("scripts", found, advice)
}

fn notices(access: &Access) -> Finding {
    match &access.notices {
        Ok(()) => Finding::ok("notices", "arrive"),
        Err(words) => Finding::warn(
            "notices",
            format!("do not arrive ({words}): waiters poll"),
            "ACL SETUSER ... +subscribe +unsubscribe +publish &redisson_lock__channel:*",
        ),
    }
}

fn writes(trial: &Trial) -> Finding {
    match &trial.failure {
        None => Finding::ok("writes", "are taken"),
        Some(words) => Finding::fail(
            "writes",
            format!("are refused: {words}"),
            "READONLY: name a master; MISCONF: let it write to its disk; OOM: give it memory; \
             NOREPLICAS: bring a replica up",
        ),
    }
}

fn is_for_waiting(command: &str) -> bool {
    FOR_WAITING.contains(&command)
}

fn names(commands: impl Iterator<Item = impl AsRef<str>>) -> String {
    commands.map(|command| command.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}

fn rules(commands: impl Iterator<Item = impl AsRef<str>>) -> String {
    commands.map(|command| format!("+{}", command.as_ref())).collect::<Vec<_>>().join(" ")
}
