//! The commands that the floor sends: those that the library was seen to send.
//!
//! They are recorded from a lock and an unlock of the library itself, as each server shows them to
//! `MONITOR`, and played again with another resource and owner. So the floor needs nothing of the
//! library but its public API, and follows it wherever script and arguments change.

use std::time::Duration;

use futures::StreamExt;
use redis::Cmd;
use redquorum::Quorum;
use redquorum_tests::Server;

use super::servers::{Servers, connection_to, monitor_of};
use crate::Problem;

/// How often a recording may meet a second's edge, where the servers' first votes differ and have
/// to be raised.
const TRIES: usize = 5;

/// After so long without another command, there will be none.
const QUIET: Duration = Duration::from_millis(100);

/// How long the two are waited for that have to come.
const PATIENCE: Duration = Duration::from_secs(2);

/// The lock and the unlock that one server was sent.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) lock: Template,
    pub(crate) unlock: Template,
}

/// A command with blanks in it.
#[derive(Clone, Debug)]
pub(crate) struct Template(Vec<Word>);

#[derive(Clone, Debug)]
pub(crate) enum Word {
    Literal(String),
    Resource,
    Owner,
}

impl Template {
    pub(crate) fn new(words: impl IntoIterator<Item = Word>) -> Self {
        Self(words.into_iter().collect())
    }

    pub(crate) fn command(&self, resource: &str, owner: &str) -> Cmd {
        let mut command = Cmd::with_capacity(self.0.len(), 512);
        for word in &self.0 {
            match word {
                Word::Literal(text) => command.arg(text),
                Word::Resource => command.arg(resource),
                Word::Owner => command.arg(owner),
            };
        }
        command
    }
}

/// What each server is sent for a lock and an unlock, in the order of the servers.
pub(crate) async fn record(servers: &Servers) -> Result<Vec<Recording>, Problem> {
    let quorum = servers.ours().await?;
    let mut recorded = Err("not tried".to_owned());
    for number in 0..TRIES {
        recorded = try_record(servers, &quorum, &format!("recorded:{number}")).await?;
        if recorded.is_ok() {
            break;
        }
    }
    quorum.shutdown().await;
    recorded
        .map_err(|seen| format!("a lock and its unlock were never two commands, but at last {seen}").into())
}

/// If some server was sent anything but two commands: what.
async fn try_record(
    servers: &Servers,
    quorum: &Quorum,
    resource: &str,
) -> Result<Result<Vec<Recording>, String>, Problem> {
    let mut monitors = Vec::new();
    for server in servers.all() {
        monitors.push(monitor_of(server).await?);
    }
    let guard = quorum.red_lock(resource).lock().await?;
    // Until all have answered: an unlock that overtakes its lock would leave a tombstone, which is
    // not the common case.
    tokio::time::sleep(QUIET).await;
    let owner = guard.id().to_string();
    guard.unlock().await?;
    let mut recordings = Vec::new();
    for mut monitor in monitors {
        let mut lines = monitor.on_message::<String>();
        let mut calls = Vec::new();
        let patience = |calls: &Vec<_>| if calls.len() < 2 { PATIENCE } else { QUIET };
        while let Ok(Some(line)) = tokio::time::timeout(patience(&calls), lines.next()).await {
            calls.extend(call(&line).filter(|words| words.contains(&resource)).map(|words| {
                let blank = |word: &str| match word {
                    _ if word == resource => Word::Resource,
                    _ if word == owner => Word::Owner,
                    _ => Word::Literal(word.to_owned()),
                };
                Template::new(words.into_iter().map(blank))
            }));
        }
        match <[Template; 2]>::try_from(calls) {
            Ok([lock, unlock]) => recordings.push(Recording { lock, unlock }),
            Err(calls) => return Ok(Err(format!("{calls:?}"))),
        }
    }
    Ok(Ok(recordings))
}

/// The words of a call, from a line such as `1700000000.1 [0 127.0.0.1:50000] "EVALSHA" "..."`;
/// nothing for what runs inside of scripts. Words that would have to be unescaped do not occur:
/// resource and owner are chosen here.
fn call(line: &str) -> Option<Vec<&str>> {
    let (_, rest) = line.split_once("] ")?;
    let words: Vec<&str> = rest.strip_prefix('"')?.strip_suffix('"')?.split("\" \"").collect();
    words.first().is_some_and(|name| *name == "EVALSHA").then_some(words)
}

impl Recording {
    /// What the one-line scripts of the customary Redlock would be.
    pub(crate) async fn one_line(server: &Server) -> Result<Self, Problem> {
        const COMPARE_AND_DELETE: &str =
            "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
        let literal = |text: &str| Word::Literal(text.to_owned());
        let mut connection = connection_to(server).await?;
        let sha: String =
            redis::cmd("SCRIPT").arg("LOAD").arg(COMPARE_AND_DELETE).query_async(&mut connection).await?;
        let set =
            [literal("SET"), Word::Resource, Word::Owner, literal("NX"), literal("PX"), literal("30000")];
        let delete = [literal("EVALSHA"), Word::Literal(sha), literal("1"), Word::Resource, Word::Owner];
        Ok(Self { lock: Template::new(set), unlock: Template::new(delete) })
    }
}
