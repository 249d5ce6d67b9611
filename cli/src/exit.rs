//! The exit statuses, and the part of the help that lists them.

use std::process::ExitCode;

/// The outcome of a call, with an exit status.
///
/// A status is from `sysexits.h` if that file has a fitting status. Otherwise the status is a larger number.
/// `run` and `elect` end with the exit status of their command, which may equal any of these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success.
    Success,
    /// The exit status of the command that `run` or `elect` ran.
    Command(u8),
    /// The signal that ended this command, or redquorum itself.
    Signal(u8),
    /// Arguments that are invalid or contradict each other.
    Usage,
    /// Fewer answering nodes than a quorum.
    NoQuorum,
    /// A fault of redquorum, or a fault of the operating system without a status of its own.
    Internal,
    /// A thread or a process that the operating system refused to start.
    System,
    /// A file, or the output, that could not be read or written.
    Io,
    /// A lock that other clients held until the end of the wait.
    Held,
    /// [`Held`](Self::Held) with the status of `--held-exit`.
    HeldAs(u8),
    /// Settings that are invalid, or differ from the metadata of the nodes.
    Config,
    /// A lease that was lost or about to end, so that the command was stopped.
    LeaseLost,
    /// An election without a leader.
    NoLeader,
    /// A failure that the doctor found, or a warning with `--strict`.
    Unsound,
    /// A latch that was closed at the end of the wait.
    LatchClosed,
    /// A question that the user answered with no, or a holder that changed before the answer.
    Declined,
    /// A command that cannot be executed.
    NotExecutable,
    /// A command that does not exist.
    NotFound,
}

impl Exit {
    /// The outcomes with a fixed exit status, in ascending order, with their meanings.
    pub(crate) const TABLE: [(Self, &str); 15] = [
        (Self::Success, "success; for `run` and `elect`, the exit status of their command"),
        (Self::Usage, "the arguments are invalid"),
        (Self::NoQuorum, "fewer nodes than a quorum answered"),
        (Self::Internal, "a fault of redquorum or of the system"),
        (Self::System, "the system refused to start a thread or a process"),
        (Self::Io, "a file, or the output, could not be read or written"),
        (Self::Held, "other clients held the lock until the end of the wait, or the ticket is spent"),
        (Self::Config, "the settings are invalid, or differ from the metadata of the nodes"),
        (Self::LeaseLost, "the lease was lost or about to end, so the command was stopped"),
        (Self::NoLeader, "the election has no leader"),
        (Self::Unsound, "`doctor` found a failure, or a warning with `--strict`"),
        (Self::LatchClosed, "the latch was closed at the end of the wait"),
        (Self::Declined, "the answer to a question was no, or the holder changed before the answer"),
        (Self::NotExecutable, "the command to run cannot be executed"),
        (Self::NotFound, "the command to run does not exist"),
    ];

    /// Returns the exit status.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Command(code) | Self::HeldAs(code) => code,
            Self::Signal(signal) => 128_u8.saturating_add(signal),
            Self::Usage => 64,
            Self::NoQuorum => 69,
            Self::Internal => 70,
            Self::System => 71,
            Self::Io => 74,
            Self::Held => 75,
            Self::Config => 78,
            Self::LeaseLost => 79,
            Self::NoLeader => 80,
            Self::Unsound => 81,
            Self::LatchClosed => 82,
            Self::Declined => 83,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }

    /// Returns a clause about the end of a command: "the command ended with exit status 4".
    pub(crate) fn end_of_command(self) -> String {
        match self {
            Self::Signal(signal) => format!("the command was ended by signal {signal}"),
            exit => format!("the command ended with exit status {}", exit.code()),
        }
    }

    /// Returns the `kind` of an error in the output of `--json`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Command(_) => "command",
            Self::Signal(_) => "signal",
            Self::Usage => "usage",
            Self::NoQuorum => "no_quorum",
            Self::Internal => "internal",
            Self::System => "system",
            Self::Io => "io",
            Self::Held | Self::HeldAs(_) => "held",
            Self::Config => "config",
            Self::LeaseLost => "lease_lost",
            Self::NoLeader => "no_leader",
            Self::Unsound => "unsound",
            Self::LatchClosed => "latch_closed",
            Self::Declined => "declined",
            Self::NotExecutable => "not_executable",
            Self::NotFound => "not_found",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// Returns the last part of the help: every exit status and its meaning.
pub(crate) fn help() -> String {
    let mut help = String::from("Exit status:\n");
    for (exit, meaning) in Exit::TABLE {
        help.push_str(&format!("  {:>3}    {meaning}\n", exit.code()));
    }
    help.push_str(
        "  128+n  signal n ended the command, or redquorum during its wait;\n         141: the \
                   reader of the output has closed the pipe",
    );
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_codes_of_the_table_ascend_below_the_codes_of_signals() {
        let codes: Vec<u8> = Exit::TABLE.iter().map(|(exit, _)| exit.code()).collect();
        assert!(codes.iter().zip(&codes[1..]).all(|(code, next)| code < next), "{codes:?}");
        assert!(codes.iter().all(|code| *code < 128));
    }

    #[test]
    fn a_command_and_a_signal_have_the_codes_that_a_shell_returns() {
        assert_eq!(Exit::Command(7).code(), 7);
        assert_eq!(Exit::Signal(15).code(), 143);
    }

    #[test]
    fn the_end_of_a_command_names_its_exit_status_or_its_signal() {
        assert_eq!(Exit::Command(4).end_of_command(), "the command ended with exit status 4");
        assert_eq!(Exit::Success.end_of_command(), "the command ended with exit status 0");
        assert_eq!(Exit::Signal(9).end_of_command(), "the command was ended by signal 9");
    }

    #[test]
    fn the_document_of_the_command_lists_every_code() {
        let page = include_str!("../../docs/CLI.md");
        for (exit, meaning) in Exit::TABLE {
            let row = format!("| {} | `{}` | {meaning} |", exit.code(), exit.name());
            assert!(page.contains(&row), "docs/CLI.md lacks this row:\n{row}");
        }
        assert!(page.contains(&format!("| 128 + *n* | `{}` |", Exit::Signal(1).name())));
    }
}
