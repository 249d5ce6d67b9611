//! Why a command did not do what was asked.

use std::{
    fmt,
    fs::File,
    io::{self, Read},
    path::Path,
};

use redquorum::error::{AdminError, ConfigError, Error, LeaseLost, NoQuorum};

use crate::exit::Exit;

/// Why a command did not do what was asked: what is said of it, and how the process ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    /// The evidence: a line for each node or lock.
    pub(crate) evidence: Vec<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: message.to_string(), evidence: Vec::new() }
    }

    /// What is said of it, in one line.
    pub(crate) fn in_one_line(&self) -> String {
        self.told("; ")
    }

    /// The same with a line for each piece of evidence.
    pub(crate) fn in_lines(&self) -> String {
        self.told("\n  ")
    }

    fn told(&self, separator: &str) -> String {
        let parts = std::iter::once(&self.message).chain(&self.evidence);
        parts.map(String::as_str).collect::<Vec<_>>().join(separator)
    }

    /// Arguments that cannot work.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// The system does not do what it should.
    pub(crate) fn internal(doing: &str, error: impl fmt::Display) -> Self {
        Self::new(Exit::Internal, format!("{doing}: {error}"))
    }

    /// A file that cannot be read or written.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        Self::new(Exit::Io, format!("{}: {error}", path.display()))
    }

    /// The output could not be written. Where nobody reads it any more, this is the end that a
    /// shell expects.
    pub(crate) fn output(error: &io::Error) -> Self {
        const SIGPIPE: u8 = 13;
        let exit = if error.kind() == io::ErrorKind::BrokenPipe { Exit::Signal(SIGPIPE) } else { Exit::Io };
        Self::new(exit, format!("the output cannot be written: {error}"))
    }
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
        // The replies are the evidence, and stand at the end of the text.
        let message =
            text.strip_suffix(&replies.to_string()).map_or(&*text, |rest| rest.trim_end_matches("; "));
        let evidence = replies.iter().map(|(node, reply)| format!("{node}: {reply}"));
        Self { evidence: evidence.collect(), ..Self::new(Exit::NoQuorum, message) }
    }
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
                "no nodes: give --node URL for each, set REDQUORUM_NODES, or name them in a file \
                 (--config FILE)",
            ),
            ConfigError::Tls { .. } => {
                let options = "the options are --ca FILE, and together --cert FILE and --key FILE";
                Self::new(Exit::Config, format!("{error}; {options}"))
            }
            ConfigError::File { path, line: None, .. } if !is_readable(path) => Self::new(Exit::Io, error),
            // The values of arguments, not of settings.
            ConfigError::Resource(_)
            | ConfigError::Group { .. }
            | ConfigError::OutOfRange { setting: "value", .. } => Self::new(Exit::Usage, error),
            ConfigError::NoRuntime { .. } => Self::new(Exit::Internal, error),
            _ => Self::new(Exit::Config, error),
        }
    }
}

/// Whether a file can be read, so that an error about the file is about its content.
fn is_readable(path: &Path) -> bool {
    File::open(path).and_then(|mut file| file.read(&mut [0])).is_ok()
}

impl From<AdminError> for Failure {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::Config(error) => error.into(),
            AdminError::Incomplete(_) => Self::new(Exit::NoQuorum, error),
            _ => Self::new(Exit::Config, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use redquorum::Quorum;

    use super::*;

    #[tokio::test]
    async fn a_name_or_a_value_that_cannot_be_used_is_a_usage_error() {
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
