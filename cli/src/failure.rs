//! Failures of commands, with their exit statuses.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::Path,
};

use redquorum::error::{AdminError, ConfigError, Error, LeaseLost, NoQuorum, NodeReplies, NodeReply};

use crate::{exit::Exit, name};

/// The evidence about a node that answered. `partial_view` replaces this text by the holder on the node.
pub(crate) const ANSWERS: &str = "answers";

/// The evidence about a node whose answer was still outstanding at the end.
pub(crate) const NOT_WAITED_FOR: &str = "was not waited for";

/// The text in place of the evidence that was reported already.
const REPORTED: &str = "the nodes are reported above";

/// The failure of a command: the message, and the exit status of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    /// The evidence: a line for each node or lock.
    pub(crate) evidence: Vec<String>,
    /// The lines of the evidence that a notice of this command has reported already. Texts omit these lines, and JSON
    /// has them.
    pub(crate) reported: Vec<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: message.to_string(), evidence: Vec::new(), reported: Vec::new() }
    }

    /// Returns the failure without the evidence that was reported already.
    pub(crate) fn without_reported(&self) -> Self {
        let mut evidence = self.evidence.clone();
        evidence.retain(|line| !self.reported.contains(line));
        if evidence.len() < self.evidence.len() {
            evidence.insert(0, REPORTED.to_owned());
        }
        Self { evidence, reported: Vec::new(), ..self.clone() }
    }

    /// Returns the message and the evidence in one line.
    pub(crate) fn in_one_line(&self) -> String {
        self.joined("; ")
    }

    /// Returns the message, and each piece of evidence in its own line.
    pub(crate) fn in_lines(&self) -> String {
        self.joined("\n  ")
    }

    fn joined(&self, separator: &str) -> String {
        let parts = std::iter::once(&self.message).chain(&self.evidence);
        without_api_names(&parts.map(String::as_str).collect::<Vec<_>>().join(separator))
    }

    /// Returns a failure for invalid arguments.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Returns the failure of an act, such as "register signals".
    pub(crate) fn internal(act: &str, error: impl fmt::Display) -> Self {
        Self::new(Exit::Internal, format!("cannot {act}: {error}"))
    }

    /// Returns the failure of a start that the system refused. `thing` is what was to be started, such as "a process".
    pub(crate) fn not_started(thing: &str, error: &io::Error) -> Self {
        let remedy = "raise the limits of processes, threads and open files (`ulimit -u`, `ulimit -n`, `pids.max`), or \
                      free memory";
        Self::new(Exit::System, format!("cannot start {thing}: {error}: {remedy}"))
    }

    /// Returns a failure for a file that cannot be read or written.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        Self::new(Exit::Io, format!("{}: {error}", name::shown_path(path)))
    }

    /// Returns a failure for output that cannot be written. If the reader closed the pipe, the exit
    /// status is that of SIGPIPE, as a shell expects.
    pub(crate) fn output(error: &io::Error) -> Self {
        const SIGPIPE: u8 = 13;
        let exit = if error.kind() == io::ErrorKind::BrokenPipe { Exit::Signal(SIGPIPE) } else { Exit::Io };
        Self::new(exit, format!("cannot write to standard output: {error}"))
    }
}

/// Returns a text of the library in the words of the command: without names of the API, which only programs use.
pub(crate) fn without_api_names(text: &str) -> String {
    const NAMES: [(&str, &str); 8] = [
        ("by `ca_certificates`", "by --ca FILE"),
        (" or `admin::init`", ""),
        (" or `admin::reconfigure`", ""),
        (", or call `admin::give_up_reconfigure`", ""),
        (" or call `Replacement::old_is_gone`", ""),
        (" or `admin::replace`", ""),
        (" or `admin::abandon_replacement`", ""),
        ("RestartGuard::Off", "`restart_guard` to \"off\""),
    ];
    NAMES.iter().fold(text.to_owned(), |text, (name, words)| text.replace(name, words))
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        match error {
            Error::NoQuorum(error) => error.into(),
            Error::LeaseLost(lost) => lost.into(),
            Error::Config(error) => error.into(),
            _ => Self::new(Exit::Internal, error),
        }
    }
}

impl From<NoQuorum> for Failure {
    fn from(error: NoQuorum) -> Self {
        let (text, replies) = (error.to_string(), error.node_replies());
        // The text ends with the replies, which become the evidence.
        let starts = replies.iter().filter_map(|(node, _)| text.find(&format!("; {node}: ")));
        let message = starts.min().and_then(|start| text.get(..start)).unwrap_or(&text);
        let evidence = replies.iter().filter_map(|(node, reply)| {
            // `Done` only means that the node answered, because some calls ask for no vote.
            let text = match reply {
                NodeReply::NotAsked => return None,
                NodeReply::Pending => NOT_WAITED_FOR.to_owned(),
                NodeReply::Done => ANSWERS.to_owned(),
                reply => reply.to_string(),
            };
            Some(format!("{node}: {text}"))
        });
        Self { evidence: evidence.collect(), ..Self::new(Exit::NoQuorum, message) }
    }
}

/// Returns the replies of the nodes that have refused or failed, as `node: reason`.
pub(crate) fn reasons(replies: &NodeReplies) -> Vec<String> {
    let failed = |reply: &NodeReply| matches!(reply, NodeReply::Refused(_) | NodeReply::Failed(_));
    let replies = replies.iter().filter(|(_, reply)| failed(reply));
    replies.map(|(node, reply)| format!("{node}: {reply}")).collect()
}

impl From<LeaseLost> for Failure {
    fn from(lost: LeaseLost) -> Self {
        Self::new(Exit::LeaseLost, lost)
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        match &error {
            ConfigError::NoNodes => Self::new(
                Exit::Config,
                "no nodes: give --node URL for each node, set REDQUORUM_NODES, or list them as `nodes` in a \
                 file (--config FILE)",
            ),
            ConfigError::Tls { .. } => {
                let options = "the options are --ca FILE, and together --cert FILE and --key FILE";
                Self::new(Exit::Config, format!("{error}; {options}"))
            }
            ConfigError::File { path, line: None, .. } if !is_readable(path) => Self::new(Exit::Io, error),
            // These values come from arguments, not from settings.
            ConfigError::Resource(_)
            | ConfigError::Group { .. }
            | ConfigError::OutOfRange { setting: "value", .. } => Self::new(Exit::Usage, error),
            ConfigError::NoRuntime { .. } => Self::new(Exit::System, error),
            _ => Self::new(Exit::Config, error),
        }
    }
}

/// Whether a file can be read. A file error without a line number is about the content if the file can be read.
fn is_readable(path: &Path) -> bool {
    File::open(path).and_then(|mut file| file.read(&mut [0])).is_ok()
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::Config(error) => error.into(),
            AdminError::Incomplete(replies) => {
                // In a call of an administrator, a node that was not asked has answered an earlier question.
                let shown = |reply: &NodeReply| match reply {
                    NodeReply::NotAsked => "answers, and was not changed".to_owned(),
                    reply => reply.to_string(),
                };
                let evidence = replies.iter().map(|(node, reply)| format!("{node}: {}", shown(reply)));
                let message = "not every node that is needed took part";
                Self { evidence: evidence.collect(), ..Self::new(Exit::NoQuorum, message) }
            }
            AdminError::OthersNeeded(_)
            | AdminError::OldSilent { .. }
            | AdminError::OldRefuses { .. }
            | AdminError::NewNeeded { .. } => Self::new(Exit::NoQuorum, error),
            AdminError::Closed(_) => Self::new(Exit::Internal, error),
            _ => Self::new(Exit::Config, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use redquorum::{Quorum, error::NodeError};

    use super::*;

    #[tokio::test]
    async fn no_text_has_a_name_of_the_api() {
        let longer = Quorum::builder().nodes(["redis://a"]).ttl(std::time::Duration::from_secs(61));
        let out_of_range = Failure::from(longer.connect().await.unwrap_err());
        let info = Failure::new(Exit::Config, NodeError::RunIdForbidden);
        let renamed = Failure::new(Exit::Config, NodeError::InfoMissing);
        for failure in [out_of_range, info, renamed] {
            for text in [failure.in_one_line(), failure.in_lines()] {
                assert!(!text.contains("::"), "{text}");
                assert!(
                    text.contains("reconfigure`") || text.contains("`restart_guard` to \"off\" if"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_text_omits_the_evidence_that_was_reported() {
        let [reported, new] = ["a: unreachable", "b: answers"].map(str::to_owned);
        let failure = Failure {
            evidence: vec![reported.clone(), new],
            reported: vec![reported],
            ..Failure::new(Exit::NoQuorum, "no quorum")
        };
        assert_eq!(failure.in_one_line(), "no quorum; a: unreachable; b: answers");
        let text = failure.without_reported().in_one_line();
        assert_eq!(text, "no quorum; the nodes are reported above; b: answers");
        let unreported = Failure { reported: Vec::new(), ..failure };
        assert_eq!(unreported.without_reported(), unreported);
    }

    #[tokio::test]
    async fn an_invalid_name_or_value_is_a_usage_error() {
        let quorum = Quorum::in_memory(1).unwrap();
        let value = vec![b'v'; 64 * 1024 + 1];
        let too_long = quorum.election("e").campaign(value).await.unwrap_err();
        let reserved = quorum.red_lock("redquorum:node").lock().await.unwrap_err();
        let twice = quorum.multi_lock(["a", "a"]).lock().await.unwrap_err();
        for error in [too_long, reserved, twice] {
            let failure = Failure::from(error);
            assert_eq!(failure.exit, Exit::Usage, "{failure:?}");
        }
    }
}
