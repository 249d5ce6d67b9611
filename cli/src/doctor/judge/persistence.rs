//! The findings about the persistence of a node. Without a restart guard, every vote has to be on disk before the
//! node answers. With a restart guard, any setting is safe.

use redquorum::RestartGuard;

use super::is_guarded;
use crate::{
    connect::Reply,
    doctor::{
        facts::{Info, Persistence},
        finding::Finding,
    },
};

pub(super) fn judge(info: &Info, persistence: &Persistence, guard: RestartGuard) -> Vec<Finding> {
    if is_guarded(guard) {
        return vec![guarded(info, &persistence.appendfsync)];
    }
    if !info.appends {
        return vec![Finding::fail(
            "persistence",
            "appendonly no, and no restart guard",
            "set appendonly yes and appendfsync always, or a restart guard: otherwise a restart loses every vote",
        )];
    }
    let required = [
        ("persistence", "appendfsync", &persistence.appendfsync, "always"),
        ("rewrite", "no-appendfsync-on-rewrite", &persistence.no_appendfsync_on_rewrite, "no"),
        ("truncated", "aof-load-truncated", &persistence.aof_load_truncated, "no"),
    ];
    required.map(|(check, setting, reply, wanted)| unguarded(check, setting, reply, wanted)).into()
}

/// Reports the settings without a requirement, because a node that restarts is in quarantine in any case.
fn guarded(info: &Info, appendfsync: &Reply<String>) -> Finding {
    let found = match (info.appends, appendfsync) {
        (false, _) => "appendonly no".to_owned(),
        (true, Ok(fsync)) => format!("appendonly yes, appendfsync {fsync}"),
        (true, Err(_)) => "appendonly yes".to_owned(),
    };
    Finding::ok("persistence", format!("{found}: with a restart guard, any setting is safe"))
}

fn unguarded(check: &'static str, setting: &str, reply: &Reply<String>, wanted: &str) -> Finding {
    let advice =
        format!("set {setting} {wanted}: without a restart guard, exclusion requires that no vote is lost");
    match reply {
        Ok(value) if value == wanted => Finding::ok(check, format!("{setting} {value}")),
        Ok(value) => Finding::fail(check, format!("{setting} {value}"), advice),
        Err(text) => Finding::unknown(check, text, format!("make sure that {setting} is {wanted}")),
    }
}
