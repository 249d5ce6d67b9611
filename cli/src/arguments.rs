//! The command line: the commands, and the options that all commands share.

use std::path::PathBuf;

use clap::{
    Arg, ArgAction, ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, parser::ValueSource,
};

use crate::{
    commands,
    environment::{is_from, read_environment},
    exit,
};

/// The end of the help of one command.
const SHARED_OPTIONS: &str =
    "Options of the quorum (--node, --config ...) and of the output (--json, -v): redquorum help";

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
    /// Returns clap's description of all commands and options, for manual pages and completions.
    pub(crate) fn described() -> clap::Command {
        read_environment(Self::command(), None, &|_| None)
    }

    /// Reads the command line of this process, and the environment for options that the command line
    /// lacks.
    ///
    /// # Errors
    ///
    /// The first invalid argument, or the requested help.
    pub(crate) fn of_this_process() -> Result<Self, clap::Error> {
        let command = Self::command();
        // Errors of this parse are reported by the parse below, which also has the variables.
        let typed = command.clone().ignore_errors(true).try_get_matches_from(std::env::args_os()).ok();
        let command = read_environment(command, typed.as_ref(), &|name| std::env::var_os(name));
        let mut command = hide_shared_options(command);
        let matches = command.try_get_matches_from_mut(std::env::args_os())?;
        let mut arguments = Self::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        arguments.leave_variables_to_settings(&matches);
        Ok(arguments)
    }

    /// Removes the values of settings that come from an environment variable. [`Settings`](crate::settings::Settings)
    /// reads these variables itself, because a file that the command line names overrides them. Also removes the values
    /// of variables that cannot be used with the command or options on the command line.
    fn leave_variables_to_settings(&mut self, matches: &ArgMatches) {
        let is_of_variable = |matches: &ArgMatches, id: &str| is_from(matches, id, ValueSource::EnvVariable);
        let General { label, ca, cert, key, config, json, .. } = &mut self.general;
        let is_file_named = config.is_some();
        if is_of_variable(matches, "label") {
            *label = None;
        }
        // Without `--config`, no file overrides the variables, so they may stay. `reconfigure`, which refuses
        // `--config`, applies them to its own files.
        if is_file_named {
            for (id, path) in [("ca", ca), ("cert", cert), ("key", key)] {
                if is_of_variable(matches, id) {
                    *path = None;
                }
            }
        }
        if matches!(self.command, Command::Top(_)) && is_of_variable(matches, "json") {
            *json = false;
        }
        if let Some((_, of_command)) = matches.subcommand() {
            if is_file_named && is_of_variable(of_command, "ttl") {
                self.command.forget_ttl();
            }
            self.command.leave_out_variables(|id| is_of_variable(of_command, id));
        }
    }
}

/// Replaces the shared options in the help of each command by one line. `redquorum help` lists these options.
fn hide_shared_options(command: clap::Command) -> clap::Command {
    let shared: Vec<Arg> = command
        .get_arguments()
        .filter(|option| option.is_global_set())
        .map(|option| option.clone().hide(true))
        .collect();
    command.mut_subcommands(|command| command.args(shared.clone()).after_help(SHARED_OPTIONS))
}

impl Command {
    /// Removes the ttl of the lock, so that the ttl of the settings applies.
    fn forget_ttl(&mut self) {
        match self {
            Self::Run(run) => run.ttl = None,
            Self::Elect(elect) => elect.ttl = None,
            _ => {}
        }
    }

    /// Removes the values of variables that cannot be used with options on the command line, except the conflicts that
    /// are declared to clap.
    fn leave_out_variables(&mut self, is_of_variable: impl Fn(&str) -> bool) {
        match self {
            Self::Run(run) => run.leave_out_variables(is_of_variable),
            Self::Elect(elect) => elect.leave_out_variables(is_of_variable),
            Self::Latch(latch) => latch.leave_out_variables(is_of_variable),
            _ => {}
        }
    }
}

/// The options that all commands share.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct General {
    /// A node, such as redis://10.0.0.1:6379; once for each node [env: REDQUORUM_NODES,
    /// separated by commas or blanks].
    #[arg(long = "node", value_name = "URL", global = true, help_heading = "Quorum")]
    pub(crate) nodes: Vec<String>,
    /// A TOML file with nodes and settings. Options override the file, and the file overrides
    /// variables such as REDQUORUM_NODES. Variables override a file that is named by a variable [env:
    /// REDQUORUM_CONFIG].
    #[arg(long, value_name = "FILE", global = true, help_heading = "Quorum")]
    pub(crate) config: Option<PathBuf>,
    /// The name of this client in lists of holders and waiters [default: host:pid]
    #[arg(long, value_name = "TEXT", global = true, help_heading = "Quorum")]
    pub(crate) label: Option<String>,
    /// A PEM file with the CAs to trust for rediss://, instead of the system's CAs
    #[arg(long, value_name = "FILE", global = true, help_heading = "Quorum")]
    pub(crate) ca: Option<PathBuf>,
    /// A PEM file with the client certificate and its chain, for servers that require one; needs
    /// --key
    #[arg(long, value_name = "FILE", global = true, help_heading = "Quorum")]
    pub(crate) cert: Option<PathBuf>,
    /// A PEM file with the key of --cert, without a passphrase
    #[arg(long, value_name = "FILE", global = true, help_heading = "Quorum")]
    pub(crate) key: Option<PathBuf>,
    /// Treat nodes without metadata as new, for first steps. Unsafe where a node may lose its data:
    /// a flushed node looks new, so two clients could hold one lock. Run `init` once for a
    /// production quorum instead.
    #[arg(long, global = true, help_heading = "Quorum")]
    pub(crate) admit_new_nodes: bool,
    /// Print results, errors and notices as one JSON object per line.
    #[arg(long, global = true, help_heading = "Output")]
    pub(crate) json: bool,
    /// Log background events to standard error; -vv and -vvv log more. Overrides RUST_LOG.
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = "Output")]
    pub(crate) verbose: u8,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(commands::run::Run),
    Lock(commands::lock::Lock),
    Unlock(commands::unlock::Unlock),
    Elect(commands::elect::Elect),
    Observe(commands::observe::Observe),
    Latch(commands::latch::Latch),
    Inspect(commands::inspect::Inspect),
    List(commands::list::List),
    Top(commands::top::Top),
    ForceUnlock(commands::force_unlock::ForceUnlock),
    Init(commands::init::Init),
    Reconfigure(commands::reconfigure::Reconfigure),
    Replace(commands::replace::Replace),
    Doctor(commands::doctor::Doctor),
    Bench(commands::bench::Bench),
    Completions(commands::completions::Completions),
    Man(commands::man::ManualPages),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clap_accepts_the_definition_of_the_arguments() {
        Arguments::described().debug_assert();
    }
}
