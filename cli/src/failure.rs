//! Why a command did not do what was asked.

use std::{fmt, io, path::Path};

use redquorum::{
    Vote, Votes,
    admin::AdmissionError,
    error::{ConfigError, ConnectError, LeaseLost, ListError, LockError, Refusal},
};

use crate::{duration, exit::Exit};

/// Why a command did not do what was asked: what is said of it, and how the process ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    pub(crate) message: String,
    /// What each node said, where that is why.
    pub(crate) votes: Vec<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Self {
        Self { exit, message: message.to_string(), votes: Vec::new() }
    }

    /// What is said of it, in one line.
    pub(crate) fn in_one_line(&self) -> String {
        self.told("; ")
    }

    /// The same with a line for each node.
    pub(crate) fn in_lines(&self) -> String {
        self.told("\n  ")
    }

    fn told(&self, separator: &str) -> String {
        let parts = std::iter::once(&self.message).chain(&self.votes);
        parts.map(String::as_str).collect::<Vec<_>>().join(separator)
    }

    /// The same failure, of which an error says at its end what each node said.
    fn with_votes(exit: Exit, error: impl fmt::Display, votes: &Votes) -> Self {
        let text = error.to_string();
        let message =
            text.strip_suffix(&votes.to_string()).map_or(&*text, |rest| rest.trim_end_matches("; "));
        let votes = votes.iter().map(|(node, vote)| format!("{node}: {vote}"));
        Self { votes: votes.collect(), ..Self::new(exit, message) }
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

    /// Why a lock was not had in the time to wait for it, where so many votes are `needed`. That
    /// the time is over is told of nodes that cannot vote as well as of a holder.
    pub(crate) fn waited(error: LockError, needed: usize) -> Self {
        match error {
            LockError::TimedOut { resource, waited, votes } if !is_held(&votes, needed) => {
                let waited = duration::shown(waited);
                Self::with_votes(
                    Exit::NoQuorum,
                    format!("no quorum for {resource} within {waited}; {votes}"),
                    &votes,
                )
            }
            error => error.into(),
        }
    }
}

/// Whether it was others who kept a lock from its quorum: some node says so, and enough could vote.
/// One that was not asked, or not waited for, could: a single refusal may decide an attempt.
fn is_held(votes: &Votes, needed: usize) -> bool {
    let is_by_others = |vote: &Vote| matches!(vote, Vote::Refused(Refusal::Held { .. } | Refusal::Queued));
    let may_count =
        |vote: &Vote| is_by_others(vote) || matches!(vote, Vote::Granted | Vote::NotAsked | Vote::Pending);
    let able = votes.iter().filter(|(_, vote)| may_count(vote)).count();
    able >= needed && votes.iter().any(|(_, vote)| is_by_others(vote))
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Self {
        let exit = match error {
            ConfigError::NoSystemCas { reason } => {
                let message = format!(
                    "this system has no certificates of CAs to trust ({reason}): install them, or \
                     name a file with those of your own (--ca FILE)"
                );
                return Self::new(Exit::Config, message);
            }
            ConfigError::Resource(_)
            | ConfigError::DuplicateResource { .. }
            | ConfigError::EmptyGroup
            | ConfigError::GroupTooLarge { .. }
            | ConfigError::LeaderValue { .. } => Exit::Usage,
            ConfigError::NoRuntime => Exit::Internal,
            _ => Exit::Config,
        };
        Self::new(exit, error)
    }
}

impl From<ConnectError> for Failure {
    fn from(error: ConnectError) -> Self {
        match error {
            ConnectError::Config(error) => error.into(),
            ConnectError::NoQuorum { ref votes, .. } => Self::with_votes(Exit::NoQuorum, &error, votes),
            // Servers, users and clocks that have to be set right before any quorum can be had.
            _ => Self::new(Exit::Config, error),
        }
    }
}

impl From<AdmissionError> for Failure {
    fn from(error: AdmissionError) -> Self {
        match error {
            AdmissionError::Config(error) => error.into(),
            AdmissionError::Incomplete { .. } => Self::new(Exit::NoQuorum, error),
            _ => Self::new(Exit::Config, error),
        }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Config(error) => error.into(),
            LockError::LeaseLost(lost) => lost.into(),
            LockError::Quarantined { ref votes, .. }
            | LockError::NoQuorum { ref votes, .. }
            | LockError::Expired { ref votes, .. } => Self::with_votes(Exit::NoQuorum, &error, votes),
            LockError::TimedOut { ref votes, .. } => Self::with_votes(Exit::Held, &error, votes),
            _ => Self::new(Exit::Internal, error),
        }
    }
}

impl From<ListError> for Failure {
    fn from(error: ListError) -> Self {
        match error {
            ListError::NoQuorum { ref votes, .. } => Self::with_votes(Exit::NoQuorum, &error, votes),
            _ => Self::new(Exit::Internal, error),
        }
    }
}

impl From<LeaseLost> for Failure {
    fn from(lost: LeaseLost) -> Self {
        Self::new(Exit::LeaseLost, lost)
    }
}
