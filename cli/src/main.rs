//! The command `redquorum`: locks on a quorum of Redis masters, for shells and scripts.
//!
//! Its commands stand in `commands`, one file each; `exit` says how each of them may end. Standard
//! output has results alone; whatever else there is to say goes to standard error, through
//! `messages`.

#[cfg(not(unix))]
compile_error!("the command `redquorum` needs the process groups and signals of a Unix system");

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::{
    app::App,
    arguments::{Arguments, Command},
    exit::Exit,
    failure::Failure,
    messages::Messages,
    supervise::{exec_child::ExecChild, guardian, signals},
};

mod app;
mod arguments;
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
mod lock_view;
mod locked;
mod logs;
mod messages;
mod name;
mod narration;
mod output;
mod settings;
mod shortage;
mod stopwatch;
mod supervise;
mod table;
mod waiting;
mod what_to_run;

fn main() -> ExitCode {
    if let Some(exit) = guardian::guard_if_told() {
        return exit.into();
    }
    if let Some(child) = ExecChild::of_this_process() {
        return end(child.json, |_| child.perform().map(|never| match never {}));
    }
    let Arguments { general, command } = match Arguments::of_this_process() {
        Ok(arguments) => arguments,
        Err(error) => return said_by_clap(&advised(error)).into(),
    };
    let asked = if command.hears_signals() { Ok(()) } else { signals::end_a_first_process() };
    end(general.json, |messages| {
        asked?;
        logs::start(general.verbose, messages);
        perform(command, &App::new(general, messages.clone()))
    })
}

/// Does the work, says why if it fails, and stays until that is said.
fn end(is_json: bool, work: impl FnOnce(&Messages) -> Result<Exit, Failure>) -> ExitCode {
    let messages = match Messages::start(is_json) {
        Ok(messages) => messages,
        Err(failure) => return failure.exit.into(),
    };
    let exit = work(&messages).unwrap_or_else(|failure| {
        messages.failure(&failure);
        failure.exit
    });
    messages.flush();
    exit.into()
}

/// Runs the command on one thread: it waits most of its time, and a parent that dies is noticed by
/// the thread that has started a child.
fn perform(command: Command, app: &App) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::internal("a runtime", error))?;
    let performed = runtime.block_on(command.perform(app));
    // A name that nobody resolves would be waited for.
    runtime.shutdown_background();
    performed
}

/// With the advice that clap does not have: a command that is run is told from names only by what
/// stands before it, and a value may come from the environment.
fn advised(mut error: clap::Error) -> clap::Error {
    let lacks_command = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.iter().any(|argument| argument.contains("<COMMAND>")),
        _ => false,
    };
    if error.kind() == ErrorKind::MissingRequiredArgument && lacks_command {
        let tip =
            "put `--` before the command and its arguments: redquorum run NAME -- COMMAND, or give `-c TEXT`";
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    let of_value = [ContextKind::InvalidArg, ContextKind::InvalidValue].map(|kind| error.get(kind));
    if let [Some(ContextValue::String(option)), Some(ContextValue::String(value))] = of_value
        && let Some(variable) = environment::origin(option, value, |name| std::env::var_os(name))
    {
        let tip = format!("this is what the environment variable {variable} says");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Help and version go to standard output and are a success; all else that clap has to say is about
/// arguments.
fn said_by_clap(error: &clap::Error) -> Exit {
    let printed = error.print();
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion if printed.is_ok() => Exit::Success,
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Exit::Io,
        _ => Exit::Usage,
    }
}
