//! Whether a node has its votes on disk before it answers: what matters of that depends on the
//! restart guard.

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
            "set appendonly yes and appendfsync always, or a restart guard: a restart forgets every vote",
        )];
    }
    let required = [
        ("persistence", "appendfsync", &persistence.appendfsync, "always"),
        ("rewrite", "no-appendfsync-on-rewrite", &persistence.no_appendfsync_on_rewrite, "no"),
        ("truncated", "aof-load-truncated", &persistence.aof_load_truncated, "no"),
    ];
    required.map(|(check, setting, reply, wanted)| unguarded(check, setting, reply, wanted)).into()
}

/// A node that restarts is in quarantine whatever it kept.
fn guarded(info: &Info, appendfsync: &Reply<String>) -> Finding {
    let found = match (info.appends, appendfsync) {
        (false, _) => "appendonly no".to_owned(),
        (true, Ok(fsync)) => format!("appendonly yes, appendfsync {fsync}"),
        (true, Err(_)) => "appendonly yes".to_owned(),
    };
    Finding::ok("persistence", format!("{found}: as you like, with a restart guard"))
}

fn unguarded(check: &'static str, setting: &str, reply: &Reply<String>, wanted: &str) -> Finding {
    let advice =
        format!("set {setting} {wanted}: without a restart guard, exclusion rests on every vote being kept");
    match reply {
        Ok(value) if value == wanted => Finding::ok(check, format!("{setting} {value}")),
        Ok(value) => Finding::fail(check, format!("{setting} {value}"), advice),
        Err(words) => Finding::unknown(check, words, format!("make sure that {setting} is {wanted}")),
    }
}
