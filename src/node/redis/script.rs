//! The script that executes operations on a server: its text, arguments and reply.
//!
//! All operations share one script. If each operation had its own script, a server could lack the script of a lock and
//! have the script of the unlock that follows. The unlock would then be executed before the lock.

use std::{
    fmt,
    sync::{Arc, LazyLock},
};

use redis::Cmd;

use crate::{
    node::{
        names::{self, HashTag},
        operation::{
            Answer, Arguments, FAST_PATHS, OTHER_SCRIPTS, Operation, ScriptReply, USUAL_SCRIPTS, Value,
            fingerprint, text,
        },
        parameters::{QuorumParameters, RestartGuard},
        redis::{
            classify::{classify_caught, classify_code},
            stamp::Stamp,
        },
        ttl::whole_milliseconds,
    },
    values::{NodeError, Resource},
};

#[cfg(all(test, unix))]
mod tests;

/// The beginning of an expression for the number of listeners of a channel, on a node in a cluster. `PUBLISH` sends a
/// notice to every server of the cluster. All listeners of the node are connected to the same server as the script, so
/// the script does not publish without a listener there.
const ZERO_WITHOUT_LISTENERS_OR: &str = "redis.pcall('PUBSUB', 'NUMSUB', channel)[2] == 0 and 0 or ";

/// The script of a node, with the names that the node's resources have on its server.
#[derive(Debug)]
pub(crate) struct Script {
    text: String,
    name: String,
    /// The hash tag of a node in a cluster.
    tag: Option<HashTag>,
}

static STANDALONE: LazyLock<Arc<Script>> = LazyLock::new(|| Arc::new(Script::new(None)));

impl Script {
    /// Returns the script of a node whose server is no part of a cluster.
    pub(crate) fn standalone() -> Arc<Self> {
        Arc::clone(&STANDALONE)
    }

    /// Returns the script of a node in a cluster.
    pub(crate) fn with_tag(tag: HashTag) -> Arc<Self> {
        Arc::new(Self::new(Some(tag)))
    }

    fn new(tag: Option<HashTag>) -> Self {
        let publishing = if tag.is_some() { ZERO_WITHOUT_LISTENERS_OR } else { "" };
        let text = template().replace("$ZERO_WITHOUT_LISTENERS_OR ", publishing);
        let text = names::substitute_names(&text, tag.as_ref());
        let name = redis::Script::new(&text).get_hash().to_owned();
        Self { text, name, tag }
    }

    /// Returns the text of the script: a loop over the operations of a call, with the fast paths of frequent
    /// operations.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Returns the name of the script in the caches of servers: the SHA-1 of its text, in hexadecimal digits. A server
    /// executes the script by this name if the server has the script.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the command that loads the script.
    pub(crate) fn load(&self) -> Cmd {
        let mut command = redis::cmd("SCRIPT");
        command.arg("LOAD").arg(&self.text);
        command
    }

    /// Returns the channel of the notices of a resource or of another topic.
    pub(crate) fn notice_channel(&self, topic: &Resource) -> Vec<u8> {
        match &self.tag {
            Some(tag) => tag.notice_channel(topic),
            None => names::notice_channel(topic),
        }
    }

    /// Returns the call that executes `operations` in order.
    ///
    /// ```text
    /// EVALSHA name | EVAL text  numkeys  resources of all operations ... [metadata]
    ///         stamp counter_ttl guard+max_ttl+hand_over
    ///         { lock | try | turn | head | unlock | release | release_late | renew | share | unshare | unshare_late  arguments ...
    ///         | [shared which] operation resources-count arguments ... } ...
    /// ```
    ///
    /// In a cluster, the key of the node metadata is the last key of each call. While the slot moves to another server,
    /// this key makes the server refuse the call before the script begins, because not all keys of the call are on one
    /// server.
    pub(crate) fn command(
        &self,
        reference: ScriptReference,
        parameters: &QuorumParameters,
        operations: &[Operation],
    ) -> Cmd {
        // Capacity for the most frequent calls, so that the buffers do not grow.
        let mut command = Cmd::with_capacity(7 + 8 * operations.len(), 256 + 128 * operations.len());
        match reference {
            ScriptReference::Name => command.arg("EVALSHA").arg(self.name()),
            ScriptReference::Text => command.arg("EVAL").arg(self.text()),
        };
        let count = operations.iter().map(|operation| operation.resources().len()).sum::<usize>();
        command.arg(count + usize::from(self.tag.is_some()));
        let resources = operations.iter().flat_map(Operation::resources);
        match &self.tag {
            None => resources.for_each(|resource| {
                command.arg(resource.as_bytes());
            }),
            Some(tag) => {
                resources.for_each(|resource| {
                    command.arg(tag.add_to(resource));
                });
                command.arg(tag.metadata());
            }
        }
        let QuorumParameters { guard, max_ttl, counter_ttl, hand_over, .. } = parameters;
        let guard = match guard {
            RestartGuard::PerConnection => "connection",
            RestartGuard::PerVote => "vote",
            RestartGuard::Off => "off",
        };
        let (max_ttl, hand_over) = (whole_milliseconds(*max_ttl), whole_milliseconds(*hand_over));
        let mut arguments = Arguments::new(&mut command);
        arguments.joined(format_args!("{}", Stamp::of(parameters))).ttl(*counter_ttl);
        arguments.joined(format_args!("{guard} {max_ttl} {hand_over}"));
        for operation in operations {
            operation.as_dyn().encode(&mut arguments, parameters);
        }
        command
    }

    /// Decodes the reply to `operations`.
    pub(crate) fn decode(&self, operations: &[Operation], mut reply: redis::Value) -> CallReply {
        let unpublished = take_unpublished(operations.len(), &mut reply);
        let violation = match &reply {
            redis::Value::Array(answers) if answers.len() == operations.len() => None,
            redis::Value::ServerError(_) => None,
            other => Some(misshapen(other)),
        };
        let mut answers = decode_answers(operations, reply);
        if let Some(tag) = &self.tag {
            answers.iter_mut().for_each(|answer| remove_tag(answer, tag));
        }
        CallReply { answers, unpublished, violation }
    }
}

/// Removes the hash tag from the resources in an answer. Resources of another tag belong to another node.
fn remove_tag(answer: &mut Answer, tag: &HashTag) {
    if let Answer::Listed(page) = answer {
        page.resources =
            page.resources.iter().filter_map(|resource| tag.remove_from(resource.as_bytes())).collect();
    }
}

/// Returns the text of the script with variables in the place of names.
///
/// All general paths are functions, which are defined in groups when an operation of the call first needs them, for the
/// reason in `node.lua`. The first group has the functions of the usual operations, and functions of all operations.
/// `node.define` defines the functions of readers by the name `share`, and the functions of wait queues by the name
/// `wake_next`. Any other name stands for the last group, [`OTHER_SCRIPTS`], which includes wait queues.
fn template() -> String {
    let usual = [
        include_str!("scripts/node.lua"),
        include_str!("scripts/execute.lua"),
        include_str!("scripts/reading.lua"),
        include_str!("scripts/guard.lua"),
        include_str!("scripts/writing.lua"),
        include_str!("scripts/publishing.lua"),
    ];
    [
        &["local function define(braced)\n"][..],
        &usual,
        USUAL_SCRIPTS,
        &["function node.define(name)\nif name == 'share' then\n"],
        &[include_str!("scripts/readers.lua"), "return\nend\nif not node.wake_next then\n"],
        &[include_str!("scripts/queue.lua"), "end\nif name == 'wake_next' then\nreturn\nend\n"],
        &[include_str!("scripts/registration.lua")],
        OTHER_SCRIPTS,
        &["end\nreturn node\nend\n", &dispatch()],
    ]
    .concat()
    .concat()
}

/// Returns the loop over the operations, with each fast path inserted as text.
///
/// A fast path is not a function, because defining a function costs a server as much as reading a key.
fn dispatch() -> String {
    let guard = [("$FAST_GUARD", include_str!("scripts/guard.fast.lua"))];
    let publish = [("$FAST_PUBLISH", include_str!("scripts/publish.fast.lua"))];
    let texts = guard.iter().chain(FAST_PATHS).chain(&publish);
    texts.fold(include_str!("scripts/dispatch.lua").to_owned(), |text, (name, path)| text.replace(name, path))
}

/// Returns the commands that the script of a node calls, in lower case and in order.
#[cfg(feature = "__command")]
pub(crate) fn commands() -> std::collections::BTreeSet<String> {
    let script = Script::standalone();
    let calls =
        ["redis.call('", "redis.pcall('"].into_iter().flat_map(|call| script.text().split(call).skip(1));
    calls.filter_map(|rest| rest.split('\'').next()).map(str::to_lowercase).collect()
}

/// The way in which a call refers to the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScriptReference {
    Name,
    /// The whole text, which the server keeps. Only the registration on a server that lacks the script has the text.
    Text,
}

/// The decoded reply to one call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CallReply {
    /// The answer to each operation.
    pub(crate) answers: Vec<Answer>,
    /// The first error of a notice that the node did not publish. A notice is no part of an answer.
    pub(crate) unpublished: Option<NodeError>,
    /// The error if the reply has not the shape of a reply to these operations. Later replies on the connection may then
    /// be the replies to other calls.
    pub(crate) violation: Option<NodeError>,
}

/// Removes the error of an unpublished notice, which follows the answers to this number of operations.
fn take_unpublished(operations: usize, reply: &mut redis::Value) -> Option<NodeError> {
    let redis::Value::Array(values) = reply else { return None };
    let last = Value::from(values.last().filter(|_| values.len() == operations + 1)?.clone());
    let ScriptReply::Tagged(b"unpublished", [problem]) = ScriptReply::read(&last)? else { return None };
    let error = classify_caught(&text(problem)?);
    values.pop();
    Some(error)
}

/// Returns the answers to `operations`. A value without the shape of an answer is a protocol error of
/// its operation.
fn decode_answers(operations: &[Operation], reply: redis::Value) -> Vec<Answer> {
    let all = |node_error: NodeError| vec![Answer::Error(node_error); operations.len()];
    match reply {
        redis::Value::Array(answers) if answers.len() == operations.len() => {
            let answers = answers.into_iter().map(Value::from);
            operations.iter().zip(answers).map(|(operation, answer)| decode_one(operation, &answer)).collect()
        }
        redis::Value::ServerError(error) => {
            all(classify_code(error.code(), error.details().unwrap_or_default()))
        }
        other => all(misshapen(&other)),
    }
}

fn decode_one(operation: &Operation, answer: &Value) -> Answer {
    parse(operation, answer).unwrap_or_else(|| Answer::Error(misshapen(answer)))
}

fn parse(operation: &Operation, answer: &Value) -> Option<Answer> {
    let reply = ScriptReply::read(answer)?;
    match reply {
        ScriptReply::Tagged(b"error", [problem]) => Some(Answer::Error(classify_caught(&text(problem)?))),
        ScriptReply::Tagged(b"counter", [counter]) => {
            Some(Answer::Error(NodeError::InvalidCounter(text(counter)?.into())))
        }
        ScriptReply::Tagged(b"with_waiters", [inner]) => {
            parse(operation, inner).map(|answer| answer.with_waiters(true))
        }
        ScriptReply::Tagged(b"wrong_quorum", [theirs]) => {
            fingerprint(theirs).map(|fingerprint| Answer::WrongQuorum { fingerprint })
        }
        reply => operation.as_dyn().decode(reply),
    }
}

fn misshapen(value: &impl fmt::Debug) -> NodeError {
    NodeError::Protocol(format!("not an answer: {}", beginning(value)).into())
}

/// Returns the first characters of a value, because a reply may be megabytes long.
pub(crate) fn beginning(value: &impl fmt::Debug) -> String {
    let mut beginning = Beginning(String::new());
    // The error means that the text has its full length.
    fmt::write(&mut beginning, format_args!("{value:?}")).ok();
    beginning.0
}

/// A text of at most 200 characters, which refuses any further character.
struct Beginning(String);

impl fmt::Write for Beginning {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = 200 - self.0.chars().count();
        self.0.extend(text.chars().take(room));
        if text.chars().nth(room).is_some() { Err(fmt::Error) } else { Ok(()) }
    }
}
