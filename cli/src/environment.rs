//! The environment variables of options, such as `REDQUORUM_TTL` for `--ttl`.
//!
//! `arguments` adds the variables to the options, and `supervise` removes variables from the environment of the
//! command that `run` or `elect` starts.

use std::ffi::{OsStr, OsString};

use clap::{
    Arg, ArgAction, ArgMatches, Command, CommandFactory, Id, builder::BoolishValueParser, parser::ValueSource,
};

use crate::arguments::Arguments;

/// The variables that `run` and `elect` set for their command. No option may read these variables. Otherwise a
/// redquorum inside this command would read the variables of the outer lock as its own options.
const SET_FOR_COMMANDS: [&str; 4] =
    ["REDQUORUM_RESOURCE", "REDQUORUM_FENCING_TOKEN", "REDQUORUM_SLOT", "REDQUORUM_TERM"];

/// The variables of options of `run`, `elect` and other commands that are also settings of the library. Every program
/// with this library reads these variables, so the command under the lock inherits them.
const SETTINGS_THAT_ARE_OPTIONS: [&str; 1] = ["REDQUORUM_TTL"];

/// Returns the variables that `run` and `elect` remove from the environment of their command, so that a redquorum inside
/// the command does not read them: the variables that an outer `run` or `elect` has set, and the variables of options
/// of subcommands, such as `REDQUORUM_WAIT`, except [`SETTINGS_THAT_ARE_OPTIONS`].
///
/// The command inherits the variables of the quorum and of the output, because these are the same for all calls.
pub(crate) fn removed_for_commands() -> Vec<String> {
    let command = Arguments::command();
    let options = command.get_subcommands().flat_map(Command::get_arguments);
    let of_calls = options.filter_map(variable_of);
    let of_calls = of_calls.filter(|name| !SETTINGS_THAT_ARE_OPTIONS.contains(&name.as_str()));
    SET_FOR_COMMANDS.iter().map(ToString::to_string).chain(of_calls).collect()
}

/// The ids of the options that have no variable.
const WITHOUT_VARIABLE: [&str; 13] = [
    "help",
    "version",
    // Settings of every program with this library. The library reads REDQUORUM_NODES and REDQUORUM_CONFIG.
    "nodes",
    "config",
    // A user has to confirm these for each call.
    "yes",
    "give_up",
    "abandon",
    "old_is_gone",
    "admit_new_nodes",
    // `-c`: a user chooses the command for each call.
    "text",
    // `force-unlock --slot`: `run` sets REDQUORUM_SLOT for its command.
    "slot",
    // `force-unlock --multi-permit`: a user chooses this lock of a semaphore for each call.
    "multi_permit",
    // `inspect --watch`: REDQUORUM_WATCH belongs to `doctor --watch`.
    "interval",
];

/// Returns the variable of an option, if the option has one.
pub(crate) fn variable_of(option: &Arg) -> Option<String> {
    let long = option.get_long().filter(|_| !WITHOUT_VARIABLE.contains(&option.get_id().as_str()))?;
    Some(variable(long))
}

/// Returns the name of the variable for the long name of an option.
fn variable(long: &str) -> String {
    format!("REDQUORUM_{}", long.to_uppercase().replace('-', "_"))
}

/// Adds the environment variables to the options of a command. Options on the command line override their own variables
/// and the variables of options that conflict with them. `typed` has the options of the command line. An empty variable
/// counts as unset. The variable of a flag also counts as unset if its value is `no`, `false`, `0` or the like.
pub(crate) fn read_environment(
    command: Command,
    typed: Option<&ArgMatches>,
    environment: &impl Fn(&str) -> Option<OsString>,
) -> Command {
    let overridden = typed.map(|typed| conflicting(&command, typed)).unwrap_or_default();
    let command = command.mut_args(|option| {
        let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
        let Some(variable) = variable_of(&option).filter(|_| !overridden.contains(option.get_id())) else {
            return option;
        };
        if environment(&variable).is_some_and(|value| is_unset(&value, is_flag)) {
            return option;
        }
        let option = option.env(variable).hide_env_values(true);
        if is_flag { option.value_parser(BoolishValueParser::new()) } else { option }
    });
    command.mut_subcommands(|command| {
        let typed = typed.and_then(|typed| typed.subcommand_matches(command.get_name()));
        read_environment(command, typed, environment)
    })
}

/// Returns the options of a command that conflict with an option of the command line.
fn conflicting(command: &Command, typed: &ArgMatches) -> Vec<Id> {
    let is_typed = |option: &&Arg| is_from(typed, option.get_id().as_str(), ValueSource::CommandLine);
    let conflicts = |of: &Arg, with: &Arg| {
        command.get_arg_conflicts_with(of).iter().any(|other| other.get_id() == with.get_id())
    };
    let typed: Vec<&Arg> = command.get_arguments().filter(is_typed).collect();
    let is_overridden =
        |option: &&Arg| typed.iter().any(|typed| conflicts(option, typed) || conflicts(typed, option));
    command.get_arguments().filter(is_overridden).map(|option| option.get_id().clone()).collect()
}

/// Whether the value of an option comes from this source. Returns false for an option of another command.
pub(crate) fn is_from(matches: &ArgMatches, id: &str, source: ValueSource) -> bool {
    matches.try_contains_id(id).is_ok() && matches.value_source(id) == Some(source)
}

/// Whether a variable with this value counts as unset.
fn is_unset(value: &OsStr, is_flag: bool) -> bool {
    const DENIALS: [&str; 6] = ["n", "no", "f", "false", "off", "0"];
    let is_denial = || value.to_str().is_some_and(|text| DENIALS.contains(&&*text.to_lowercase()));
    value.is_empty() || (is_flag && is_denial())
}

/// Returns the environment variable of an option, if the variable has this value. The same value on the command line is
/// not distinguished. The option is named as in clap's errors:
/// `--ttl <DURATION>`.
pub(crate) fn origin(
    option: &str,
    value: &str,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Option<String> {
    let long = option.strip_prefix("--")?.split(' ').next()?;
    Some(variable(long)).filter(|variable| environment(variable).is_some_and(|set| set == value))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns all options of a command and its subcommands, each with the name of its command.
    fn options(command: &Command) -> Vec<(String, Arg)> {
        let own = command.get_arguments().filter(|argument| !argument.is_positional());
        let own = own.map(|option| (command.get_name().to_owned(), option.clone()));
        own.chain(command.get_subcommands().flat_map(options)).collect()
    }

    #[test]
    fn each_option_has_a_variable_except_for_the_listed_options() {
        let command = read_environment(Arguments::command(), None, &|_| None);
        let without: Vec<String> = options(&command)
            .iter()
            .filter(|(_, option)| option.get_env().is_none())
            .map(|(command, option)| format!("{command} {}", option.get_id()))
            .collect();
        assert_eq!(
            without,
            [
                "redquorum nodes",
                "redquorum config",
                "redquorum admit_new_nodes",
                "run text",
                "elect text",
                "latch yes",
                "inspect multi_permit",
                "inspect interval",
                "force-unlock slot",
                "force-unlock multi_permit",
                "force-unlock yes",
                "init yes",
                "reconfigure yes",
                "reconfigure give_up",
                "replace old_is_gone",
                "replace abandon",
            ]
        );
    }

    #[test]
    fn options_do_not_read_the_variables_that_are_set_for_commands() {
        for (command, option) in options(&read_environment(Arguments::command(), None, &|_| None)) {
            let variable = option.get_env().and_then(OsStr::to_str).unwrap_or_default();
            assert!(!SET_FOR_COMMANDS.contains(&variable), "{command} {}", option.get_id());
        }
    }

    #[test]
    fn empty_variables_and_false_flags_count_as_unset() {
        for (value, is_flag, expected) in [
            ("", false, true),
            ("0", false, false),
            ("0", true, true),
            ("False", true, true),
            ("1", true, false),
        ] {
            assert_eq!(is_unset(OsStr::new(value), is_flag), expected, "{value:?} {is_flag}");
        }
    }

    #[test]
    fn the_origin_of_a_value_is_a_variable_with_the_same_value() {
        let set = |name: &str| (name == "REDQUORUM_KILL_AFTER").then(|| "30".into());
        assert_eq!(origin("--kill-after <DURATION>", "30", set).as_deref(), Some("REDQUORUM_KILL_AFTER"));
        assert_eq!(origin("--kill-after <DURATION>", "31", set), None);
        assert_eq!(origin("--ttl <DURATION>", "30", set), None);
    }
}
