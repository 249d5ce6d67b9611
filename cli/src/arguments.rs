//! What stands on the command line.

use std::path::PathBuf;

use clap::{ArgAction, Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{commands, environment::read_environment, exit};

/// Locks that survive the loss of a minority of Redis masters, from a shell.
#[derive(Debug, Parser)]
#[command(
    name = "redquorum",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    after_help = exit::help()
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) general: General,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Arguments {
    /// What there is to know of them, for help, manual pages and completions.
    pub(crate) fn described() -> clap::Command {
        read_environment(Self::command(), &|_| None)
    }

    /// What this process was given, by its command line or its environment.
    ///
    /// # Errors
    ///
    /// What cannot be understood, or the help that was asked for.
    pub(crate) fn of_this_process() -> Result<Self, clap::Error> {
        let mut command = read_environment(Self::command(), &|name| std::env::var_os(name));
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    }
}

/// What all commands take.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct General {
    /// A node, such as redis://10.0.0.1:6379; once for each node [env: REDQUORUM_NODES,
    /// separated by commas or blanks].
    #[arg(long = "node", value_name = "URL", global = true, help_heading = "Quorum")]
    pub(crate) nodes: Vec<String>,
    /// A TOML file with nodes and settings; nodes given otherwise replace its nodes [env:
    /// REDQUORUM_CONFIG].
    #[arg(long, value_name = "FILE", global = true, help_heading = "Quorum")]
    pub(crate) config: Option<PathBuf>,
    /// What this client calls itself, for people who see what it holds [default: host:pid]
    #[arg(long, value_name = "TEXT", global = true, help_heading = "Quorum")]
    pub(crate) label: Option<String>,
    /// For rediss://, a PEM file with the CAs to trust, in place of those of the system
    #[arg(long, value_name = "FILE", global = true, help_heading = "Quorum")]
    pub(crate) ca: Option<PathBuf>,
    /// For servers that ask for a certificate, a PEM file with it and its chain; needs its key
    #[arg(long, value_name = "FILE", global = true, help_heading = "Quorum")]
    pub(crate) cert: Option<PathBuf>,
    /// The key of that certificate, a PEM file without a passphrase
    #[arg(long, value_name = "FILE", global = true, help_heading = "Quorum")]
    pub(crate) key: Option<PathBuf>,
    /// Take nodes without metadata for new ones, for first steps. Wrong wherever a node may lose
    /// its data: one that was flushed looks new, and two could hold one lock unseen. A quorum that
    /// matters is made once, by an `init`.
    #[arg(long, global = true, help_heading = "Quorum")]
    pub(crate) admit_new_nodes: bool,
    /// Print results, and say errors and notices, as one JSON object to a line.
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
    /// Say on standard error what happens in the background; -vv and -vvv say more. Wins over
    /// RUST_LOG.
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = "Output")]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(commands::run::Run),
    Elect(commands::elect::Elect),
    Observe(commands::observe::Observe),
    Inspect(commands::inspect::Inspect),
    List(commands::list::List),
    Top(commands::top::Top),
    ForceUnlock(commands::force_unlock::ForceUnlock),
    Init(commands::init::Init),
    Reconfigure(commands::reconfigure::Reconfigure),
    Doctor(commands::doctor::Doctor),
    Bench(commands::bench::Bench),
    Completions(commands::completions::Completions),
    Man(commands::man::Pages),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_contradict_nothing() {
        Arguments::described().debug_assert();
    }
}
