//! The command `redquorum`: locks on a quorum of Redis masters, for shells and scripts.
//!
//! `commands` has a file for each command, and `exit` the exit statuses. Standard output receives
//! results only. Errors, notices and logs go to standard error through `messages`.
//!
//! The first argument decides what a process does:
//!
//! ```text
//!   guard-group ──► supervise::guardian    kills the group of a command if redquorum dies
//!   exec-child ───► supervise::exec_child  becomes the command
//!   other ────────► arguments ──► commands, each with an App
//! ```

#[cfg(not(unix))]
compile_error!("the command `redquorum` needs the process groups and signals of a Unix system");

use std::{ffi::OsString, process::ExitCode};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use redquorum::__command::shown_value;

use crate::{
    app::App,
    arguments::{Arguments, Command},
    exit::Exit,
    failure::Failure,
    messages::Messages,
    supervise::{exec_child::ExecChild, guardian, signals},
    usage_error::without_secrets,
};

mod app;
mod arguments;
mod at_least;
mod bench;
mod changes;
mod commands;
mod connect;
mod consent;
mod counted;
mod doctor;
mod duration;
mod environment;
mod exit;
mod failure;
mod holders;
mod latch_view;
mod lock_view;
mod locked;
mod logs;
mod messages;
mod name;
mod node_remedy;
mod number;
mod output;
mod partial_view;
mod permit_count_report;
mod settings;
mod shortage;
mod stopwatch;
mod supervise;
mod table;
mod ticket_source;
mod usage_error;
mod wait_cycles;
mod wait_report;
mod waiters;
mod waiting;
mod what_to_run;

fn main() -> ExitCode {
    if let Some(exit) = guardian::guard_if_requested() {
        return exit.into();
    }
    if let Some(child) = ExecChild::of_this_process() {
        return report_result(child.json, |_| child.perform().map(|never| match never {}));
    }
    let Arguments { general, command } = match Arguments::of_this_process() {
        Ok(arguments) => arguments,
        Err(error) => return print_clap_error(&without_secrets(with_advice(error))).into(),
    };
    let signals = if command.handles_signals() { Ok(()) } else { signals::end_by_signal_as_first_process() };
    report_result(general.json, |messages| {
        signals?;
        logs::start(general.verbose, messages);
        perform(command, &App::new(general, messages.clone()))
    })
}

/// Does the work, reports a failure on standard error, and waits until the report is written.
fn report_result(is_json: bool, work: impl FnOnce(&Messages) -> Result<Exit, Failure>) -> ExitCode {
    let messages = match Messages::start(is_json) {
        Ok(messages) => messages,
        Err(failure) => {
            Messages::write_early_failure(&failure, is_json);
            return failure.exit.into();
        }
    };
    let exit = work(&messages).unwrap_or_else(|failure| {
        messages.failure(&failure);
        failure.exit
    });
    messages.flush();
    exit.into()
}

/// Runs the command on the main thread only. The kernel kills the child of `run` or `elect` when the *thread* that
/// started the child ends, so that thread has to live as long as the process.
fn perform(command: Command, app: &App) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::not_started("the runtime", &error))?;
    runtime.block_on(command.perform(app))
}

/// Adds tips to an error of clap: the `--` before the command to run, the option that replaces an option of another
/// tool, and the environment variable that an invalid value comes from. Removes a tip that is wrong for the command.
fn with_advice(mut error: clap::Error) -> clap::Error {
    if error.kind() == ErrorKind::InvalidUtf8
        && let Some(option) = option_without_utf8(std::env::args_os())
    {
        let text = format!("the value of {option} is not UTF-8\n");
        return clap::Error::raw(ErrorKind::InvalidUtf8, text);
    }
    let is_of_option = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(given)) => follows_option(given, std::env::args_os()),
        _ => false,
    };
    if error.kind() == ErrorKind::UnknownArgument
        && (is_of_option || is_about_command_that_runs_another(&error))
    {
        remove_tip_for_trailing_value(&mut error);
    }
    let lacks_command = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.iter().any(|argument| argument.contains("<COMMAND>")),
        _ => false,
    };
    if error.kind() == ErrorKind::MissingRequiredArgument && lacks_command {
        let tip =
            "put `--` before the command and its arguments: redquorum run NAME -- COMMAND, or give `-c TEXT`";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    if error.kind() == ErrorKind::UnknownArgument
        && let Some(ContextValue::String(given)) = error.get(ContextKind::InvalidArg)
        && let Some(tip) = tip_for_option_of_other_tool(given)
    {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let option_and_value = [ContextKind::InvalidArg, ContextKind::InvalidValue].map(|kind| error.get(kind));
    if let [Some(ContextValue::String(option)), Some(ContextValue::String(value))] = option_and_value
        && let Some(variable) = environment::origin(option, value, |name| std::env::var_os(name))
    {
        let tip = format!("the value comes from the environment variable {variable}: correct or unset it");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Returns the option of the first value that is not UTF-8; `None` if no option precedes the value.
fn option_without_utf8(arguments: impl Iterator<Item = OsString>) -> Option<String> {
    let mut before = None;
    for argument in arguments {
        let Some(text) = argument.to_str() else {
            let shown = argument.to_string_lossy();
            let own = shown.split_once('=').map(|(option, _)| option.to_owned());
            return own.or(before).filter(|option| option.starts_with('-') && shown_value(option) == option);
        };
        before = Some(text.to_owned());
    }
    None
}

/// Whether the first of these arguments that begins with `given` follows an option, whose value it is then likely to be.
fn follows_option(given: &str, arguments: impl Iterator<Item = OsString>) -> bool {
    let mut is_after_option = false;
    for argument in arguments {
        let argument = argument.to_string_lossy();
        if argument.starts_with(given) {
            return is_after_option;
        }
        is_after_option = argument.starts_with("--") && argument.len() > 2;
    }
    false
}

/// Whether an error is about the arguments of `run` or `elect`, in which `--` begins the command to run.
fn is_about_command_that_runs_another(error: &clap::Error) -> bool {
    let Some(ContextValue::StyledStr(usage)) = error.get(ContextKind::Usage) else { return false };
    let usage = usage.to_string();
    [" run [OPTIONS]", " elect [OPTIONS]"].iter().any(|command| usage.contains(command))
}

/// Removes clap's tip to put a value that begins with `-` after `--`.
fn remove_tip_for_trailing_value(error: &mut clap::Error) {
    if let Some(ContextValue::StyledStrs(mut tips)) = error.remove(ContextKind::Suggested) {
        tips.retain(|tip| !tip.to_string().contains("as a value"));
        if !tips.is_empty() {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
        }
    }
}

/// Returns a tip that names the option with the effect of an option of another tool (`consul lock`, `flock`).
fn tip_for_option_of_other_tool(option: &str) -> Option<&'static str> {
    match option.split('=').next()? {
        "--timeout" => Some("`--wait DURATION` limits the wait for the lock"),
        "--nonblock" | "--try" => Some("`--wait 0` makes one attempt"),
        _ => None,
    }
}

/// Prints help and version to standard output, with success, and errors in the arguments to standard
/// error.
fn print_clap_error(error: &clap::Error) -> Exit {
    let printed = error.print();
    match (error.kind(), printed) {
        (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion, Ok(())) => Exit::Success,
        (ErrorKind::DisplayHelp | ErrorKind::DisplayVersion, Err(error)) => {
            let failure = Failure::output(&error);
            Messages::write_early_failure(&failure, false);
            failure.exit
        }
        _ => Exit::Usage,
    }
}
