//! Options from the environment: `REDQUORUM_TTL` is `--ttl`.

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgAction, Command, CommandFactory, builder::BoolishValueParser};

use crate::arguments::Arguments;

/// What a command that `run` or `elect` has started finds in its environment. No option reads these:
/// a redquorum in a redquorum would take what the outer one tells its command for an order.
const TOLD_TO_COMMANDS: [&str; 4] =
    ["REDQUORUM_RESOURCE", "REDQUORUM_FENCING_TOKEN", "REDQUORUM_SLOT", "REDQUORUM_TERM"];

/// What says how a quorum is to be asked, as every program with this library reads it, and is an
/// option too.
const SETTINGS_THAT_ARE_OPTIONS: [&str; 1] = ["REDQUORUM_TTL"];

/// What a command that `run` or `elect` starts does not inherit: what an outer redquorum has told us
/// of its lock, and what says what one invocation does, or a redquorum in a redquorum would do it as
/// well. Which quorum there is, and how to print, is the same for all.
pub(crate) fn kept_from_commands() -> Vec<String> {
    let command = Arguments::command();
    let options = command.get_subcommands().flat_map(Command::get_arguments);
    let of_invocations = options.filter_map(variable_of);
    let of_invocations = of_invocations.filter(|name| !SETTINGS_THAT_ARE_OPTIONS.contains(&name.as_str()));
    TOLD_TO_COMMANDS.iter().map(ToString::to_string).chain(of_invocations).collect()
}

/// Options that have no variable, by their ids.
const WITHOUT: [&str; 9] = [
    "help",
    "version",
    // The settings read REDQUORUM_NODES and REDQUORUM_CONFIG, as every program with this library can.
    "nodes",
    "config",
    // What a person has to mean each time.
    "yes",
    "admit_new_nodes",
    // What to do, and not how. A command would inherit its own text; REDQUORUM_SLOT is another thing.
    "text",
    "slot",
    // `inspect --watch`: REDQUORUM_WATCH is for how long the doctor watches.
    "interval",
];

/// The variable of an option, if it has one.
pub(crate) fn variable_of(option: &Arg) -> Option<String> {
    let long = option.get_long().filter(|_| !WITHOUT.contains(&option.get_id().as_str()))?;
    Some(variable(long))
}

/// What the variable of an option is called that is called so.
fn variable(long: &str) -> String {
    format!("REDQUORUM_{}", long.to_uppercase().replace('-', "_"))
}

/// The same command, all of whose options are taken from the environment where the command line has
/// them not. A variable that is set to nothing says nothing, and one that denies a flag neither.
pub(crate) fn read_environment(command: Command, environment: &impl Fn(&str) -> Option<OsString>) -> Command {
    let command = command.mut_args(|option| {
        let is_flag = matches!(option.get_action(), ArgAction::SetTrue);
        let Some(variable) = variable_of(&option) else { return option };
        if environment(&variable).is_some_and(|value| says_nothing(&value, is_flag)) {
            return option;
        }
        let option = option.env(variable).hide_env_values(true);
        if is_flag { option.value_parser(BoolishValueParser::new()) } else { option }
    });
    command.mut_subcommands(|command| read_environment(command, environment))
}

fn says_nothing(value: &OsStr, is_flag: bool) -> bool {
    const DENIALS: [&str; 6] = ["n", "no", "f", "false", "off", "0"];
    let is_denial = || value.to_str().is_some_and(|text| DENIALS.contains(&&*text.to_lowercase()));
    value.is_empty() || (is_flag && is_denial())
}

/// The variable that has given an option this value, for an error that names the option as in
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

    fn options(command: &Command) -> Vec<(String, Arg)> {
        let own = command.get_arguments().filter(|argument| !argument.is_positional());
        let own = own.map(|option| (command.get_name().to_owned(), option.clone()));
        own.chain(command.get_subcommands().flat_map(options)).collect()
    }

    #[test]
    fn every_option_has_a_variable_or_is_known_to_have_none() {
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
    fn no_option_reads_what_commands_are_told() {
        for (command, option) in options(&read_environment(Arguments::command(), &|_| None)) {
            let variable = option.get_env().and_then(OsStr::to_str).unwrap_or_default();
            assert!(!TOLD_TO_COMMANDS.contains(&variable), "{command} {}", option.get_id());
        }
    }

    #[test]
    fn what_says_nothing_is_as_good_as_not_set() {
        for (value, is_flag, expected) in [
            ("", false, true),
            ("0", false, false),
            ("0", true, true),
            ("False", true, true),
            ("1", true, false),
        ] {
            assert_eq!(says_nothing(OsStr::new(value), is_flag), expected, "{value:?} {is_flag}");
        }
    }

    #[test]
    fn an_error_is_told_with_the_variable_that_it_comes_from() {
        let set = |name: &str| (name == "REDQUORUM_KILL_AFTER").then(|| "30".into());
        assert_eq!(origin("--kill-after <DURATION>", "30", set).as_deref(), Some("REDQUORUM_KILL_AFTER"));
        assert_eq!(origin("--kill-after <DURATION>", "31", set), None);
        assert_eq!(origin("--ttl <DURATION>", "30", set), None);
    }
}
