//! Environment variables of options: `REDQUORUM_TTL` is `--ttl`.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command, CommandFactory, builder::BoolishValueParser};

use crate::arguments::Arguments;

/// The variables that `run` and `elect` set for their command. No option reads these variables,
/// because a nested redquorum would take the variables of the outer lock for its own options.
const SET_FOR_COMMANDS: [&str; 4] =
    ["REDQUORUM_RESOURCE", "REDQUORUM_FENCING_TOKEN", "REDQUORUM_SLOT", "REDQUORUM_TERM"];

/// Options of a command whose variable is also a setting of the quorum, which every program with this
/// library reads.
const SETTINGS_THAT_ARE_OPTIONS: [&str; 1] = ["REDQUORUM_TTL"];

/// Returns the variables that `run` and `elect` remove for their command: the variables of the lock of
/// an outer redquorum, and the variables of options of a single call.
///
/// A nested redquorum would obey options of a single call, such as `REDQUORUM_WAIT`. The command
/// inherits the variables of the quorum and of the output, because these are the same for all
/// calls.
pub(crate) fn removed_for_commands() -> Vec<String> {
    let command = Arguments::command();
    let options = command.get_subcommands().flat_map(Command::get_arguments);
    let of_calls = options.filter_map(variable_of);
    let of_calls = of_calls.filter(|name| !SETTINGS_THAT_ARE_OPTIONS.contains(&name.as_str()));
    SET_FOR_COMMANDS.iter().map(ToString::to_string).chain(of_calls).collect()
}

/// The ids of the options that have no variable.
const WITHOUT_VARIABLE: [&str; 9] = [
    "help",
    "version",
    // The settings read REDQUORUM_NODES and REDQUORUM_CONFIG, as every program with this library can.
    "nodes",
    "config",
    // A user has to confirm these for each call.
    "yes",
    "admit_new_nodes",
    // A nested redquorum would inherit the command of the outer redquorum.
    "text",
    // REDQUORUM_SLOT tells a command its own slot.
    "slot",
    // `inspect --watch`: REDQUORUM_WATCH is the option `--watch` of `doctor`.
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

/// Lets options that the command line lacks come from the environment. An empty variable counts as
/// unset, and so does a flag's variable with a value such as `no`.
pub(crate) fn read_environment(command: Command, environment: &impl Fn(&str) -> Option<OsString>) -> Command {
    let command = command.mut_args(|option| {
        let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
        let Some(variable) = variable_of(&option) else { return option };
        if environment(&variable).is_some_and(|value| is_unset(&value, is_flag)) {
            return option;
        }
        let option = option.env(variable).hide_env_values(true);
        if is_flag { option.value_parser(BoolishValueParser::new()) } else { option }
    });
    command.mut_subcommands(|command| read_environment(command, environment))
}

/// Whether a variable with this value counts as unset.
fn is_unset(value: &OsStr, is_flag: bool) -> bool {
    const DENIALS: [&str; 6] = ["n", "no", "f", "false", "off", "0"];
    let is_denial = || value.to_str().is_some_and(|text| DENIALS.contains(&&*text.to_lowercase()));
    value.is_empty() || (is_flag && is_denial())
}

/// Returns the variable that gave an option this value. The option is named as in clap's errors:
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
        let command = read_environment(Arguments::command(), &|_| None);
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
                "inspect interval",
                "force-unlock slot",
                "force-unlock yes",
                "reconfigure yes",
            ]
        );
    }

    #[test]
    fn options_do_not_read_the_variables_that_are_set_for_commands() {
        for (command, option) in options(&read_environment(Arguments::command(), &|_| None)) {
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
