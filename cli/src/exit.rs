//! How the command ends.

use std::process::ExitCode;

/// How the command ends, as its exit status tells.
///
/// Where there is a name for it, it is that of `sysexits.h`; what that does not know stands behind
/// its last number. What a command under a lock says itself is passed on as it is, so it may be any
/// of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All went well.
    Success,
    /// The command that was run has ended with this.
    Command(u8),
    /// This signal ended the command that was run, or redquorum itself while it waited.
    Signal(u8),
    /// The arguments cannot be understood, or cannot work.
    Usage,
    /// Fewer nodes than a quorum could be asked.
    NoQuorum,
    /// A fault of redquorum itself, or of the system.
    Internal,
    /// A file, or the output, could not be read or written.
    Io,
    /// Somebody else held it for as long as was waited.
    Held,
    /// The same, told by this status instead.
    HeldAs(u8),
    /// The settings cannot work, or do not fit what the nodes know.
    Config,
    /// The lease was lost, or was about to be, and the command was stopped for it.
    LeaseLost,
    /// Nobody leads.
    NoLeader,
    /// The doctor has found something that fails.
    Unsound,
    /// Somebody was asked whether it should be done, and said no.
    Declined,
    /// The command that was to be run cannot be executed.
    NotExecutable,
    /// There is no such command to run.
    NotFound,
}

impl Exit {
    /// Those that have a code of their own, in the order of the codes, each with what it means.
    pub(crate) const TABLE: [(Self, &str); 13] = [
        (Self::Success, "all went well; `run` and `elect`: what the command they ran has ended with"),
        (Self::Usage, "the arguments cannot be understood, or cannot work"),
        (Self::NoQuorum, "fewer nodes than a quorum could be asked"),
        (Self::Internal, "a fault of redquorum itself, or of the system"),
        (Self::Io, "a file, or the output, could not be read or written"),
        (Self::Held, "somebody else held it for as long as was waited"),
        (Self::Config, "the settings cannot work, or do not fit what the nodes know"),
        (Self::LeaseLost, "the lease was lost, or about to be, and the command was stopped for it"),
        (Self::NoLeader, "nobody leads"),
        (Self::Unsound, "`doctor`: something fails, or with `--strict` is worth a warning"),
        (Self::Declined, "somebody said no when asked, or the holder to unlock was another by then"),
        (Self::NotExecutable, "the command to run cannot be executed"),
        (Self::NotFound, "there is no such command to run"),
    ];

    /// The exit status.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Command(code) | Self::HeldAs(code) => code,
            Self::Signal(signal) => 128_u8.saturating_add(signal),
            Self::Usage => 64,
            Self::NoQuorum => 69,
            Self::Internal => 70,
            Self::Io => 74,
            Self::Held => 75,
            Self::Config => 78,
            Self::LeaseLost => 79,
            Self::NoLeader => 80,
            Self::Unsound => 81,
            Self::Declined => 83,
            Self::NotExecutable => 126,
            Self::NotFound => 127,
        }
    }

    /// What `--json` calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Command(_) => "command",
            Self::Signal(_) => "signal",
            Self::Usage => "usage",
            Self::NoQuorum => "no_quorum",
            Self::Internal => "internal",
            Self::Io => "io",
            Self::Held | Self::HeldAs(_) => "held",
            Self::Config => "config",
            Self::LeaseLost => "lease_lost",
            Self::NoLeader => "no_leader",
            Self::Unsound => "unsound",
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

/// The end of the help: every code and its meaning.
pub(crate) fn help() -> String {
    let mut help = String::from("Exit status:\n");
    for (exit, meaning) in Exit::TABLE {
        help.push_str(&format!("  {:>3}    {meaning}\n", exit.code()));
    }
    help.push_str("  128+n  signal n ended the command, or redquorum while it waited");
    help
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_table_is_its_own_and_none_is_that_of_a_signal() {
        let codes: Vec<u8> = Exit::TABLE.iter().map(|(exit, _)| exit.code()).collect();
        assert!(codes.iter().zip(&codes[1..]).all(|(one, next)| one < next), "{codes:?}");
        assert!(codes.iter().all(|code| *code < 128));
    }

    #[test]
    fn a_command_ends_as_a_shell_would_say() {
        assert_eq!(Exit::Command(7).code(), 7);
        assert_eq!(Exit::Signal(15).code(), 143);
    }

    #[test]
    fn the_page_of_the_command_has_every_code() {
        let page = include_str!("../../docs/CLI.md");
        for (exit, meaning) in Exit::TABLE {
            let row = format!("| {} | `{}` | {meaning} |", exit.code(), exit.name());
            assert!(page.contains(&row), "docs/CLI.md lacks this row:\n{row}");
        }
    }
}
