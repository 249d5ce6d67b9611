//! What stands on the command line.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand};

use crate::{commands, exit};

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

/// What all commands take.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct General {
    /// A node, such as redis://10.0.0.1:6379; once for each node [environment: REDQUORUM_NODES,
    /// separated by commas or blanks].
    #[arg(long = "node", value_name = "URL", global = true, help_heading = "Quorum")]
    pub(crate) nodes: Vec<String>,
    /// A TOML file with nodes and settings; nodes given otherwise replace its nodes [environment:
    /// REDQUORUM_CONFIG].
    #[arg(long, value_name = "FILE", global = true, help_heading = "Quorum")]
    pub(crate) config: Option<PathBuf>,
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
    ForceUnlock(commands::force_unlock::ForceUnlock),
    Init(commands::init::Init),
    Doctor(commands::doctor::Doctor),
    Bench(commands::bench::Bench),
    Completions(commands::completions::Completions),
    Man(commands::man::Pages),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_contradict_nothing() {
        Arguments::command().debug_assert();
    }
}
