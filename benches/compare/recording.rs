//! Recorded commands of the library, which the floor sends.
//!
//! The commands are recorded from a lock and an unlock of the library itself, by `MONITOR` on each server. The floor
//! sends the commands again with a different resource and owner. Therefore the floor needs only the public API of the
//! library, and follows every change of the scripts and their arguments.

use std::time::Duration;

use futures::StreamExt;
use redis::Cmd;
use redquorum::Quorum;
use redquorum_tests::Server;

use super::servers::{Servers, connection_to, monitor_of};
use crate::Problem;

/// The maximum number of recordings. A recording fails if the second changes between the requests to two servers,
/// because then the first votes differ, and a write-back is needed.
const MAX_RECORDINGS: usize = 5;

/// The time without a command after which no further command is expected.
const QUIET_TIME: Duration = Duration::from_millis(100);

/// The longest wait for the two expected commands.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(2);

/// The lock and the unlock that one server received.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) lock: Template,
    pub(crate) unlock: Template,
}

/// A command with blanks for resource and owner.
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

/// Records the commands that each server receives for a lock and an unlock, in the order of the servers.
pub(crate) async fn record(servers: &Servers) -> Result<Vec<Recording>, Problem> {
    let quorum = servers.ours().await?;
    let mut recorded = Err("not tried".to_owned());
    for number in 0..MAX_RECORDINGS {
        recorded = try_record(servers, &quorum, &format!("recorded:{number}")).await?;
        if recorded.is_ok() {
            break;
        }
    }
    quorum.shutdown().await;
    recorded
        .map_err(|seen| format!("a lock and its unlock were never two commands, but at last {seen}").into())
}

/// Records once. If a server received anything but two commands, the inner error shows the commands.
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
    // All servers answer in this time. An unlock that overtakes its lock would leave a tombstone,
    // which is not the common case.
    tokio::time::sleep(QUIET_TIME).await;
    let owner = guard.id().to_string();
    guard.unlock().await?;
    let mut recordings = Vec::new();
    for mut monitor in monitors {
        let mut lines = monitor.on_message::<String>();
        let mut calls = Vec::new();
        let timeout_after = |calls: &Vec<_>| if calls.len() < 2 { COMMAND_TIMEOUT } else { QUIET_TIME };
        while let Ok(Some(line)) = tokio::time::timeout(timeout_after(&calls), lines.next()).await {
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

/// Returns the words of a call, from a line such as `1700000000.1 [0 127.0.0.1:50000] "EVALSHA" "..."`,
/// or `None` for a command inside of a script. Words that would have to be unescaped do not occur,
/// because resource and owner are chosen here.
fn call(line: &str) -> Option<Vec<&str>> {
    let (_, rest) = line.split_once("] ")?;
    let words: Vec<&str> = rest.strip_prefix('"')?.strip_suffix('"')?.split("\" \"").collect();
    words.first().is_some_and(|name| *name == "EVALSHA").then_some(words)
}

impl Recording {
    /// Returns the one-line scripts of the customary Redlock.
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
