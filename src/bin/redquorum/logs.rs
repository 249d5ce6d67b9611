//! The traces of the library, for `-v`.

use std::io::IsTerminal;

use tracing_subscriber::filter::LevelFilter;

use crate::messages::Messages;

/// Writes what happens in the background to standard error: warnings and notices with one `-v`, more with each other.
pub(crate) fn start(verbose: u8, messages: &Messages) {
    let level = match verbose {
        0 => return,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    let messages = messages.clone();
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_writer(move || messages.clone())
        .init();
}
