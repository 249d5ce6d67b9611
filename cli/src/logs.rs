//! The logs of the library, for `-v` and `RUST_LOG`.

use std::io::IsTerminal;

use redquorum::__command::shown_name;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};

use crate::messages::Messages;

/// Starts to write logs to standard error. One `-v` selects events up to the level INFO, `-vv` up to DEBUG, and more
/// up to TRACE. Without `-v`, `RUST_LOG` decides.
pub(crate) fn start(verbose: u8, messages: &Messages) {
    let Some(filter) = filter(verbose, std::env::var(EnvFilter::DEFAULT_ENV).ok(), messages) else { return };
    let messages = messages.clone();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_writer(move || messages.clone())
        .init();
}

/// Returns the filter of the logs; `None` without `-v` and a valid `RUST_LOG`.
fn filter(verbose: u8, variable: Option<String>, messages: &Messages) -> Option<EnvFilter> {
    let level = match verbose {
        0 => {
            let variable = variable.filter(|directives| !directives.trim().is_empty())?;
            return match EnvFilter::try_new(&variable) {
                Ok(filter) => Some(filter),
                Err(error) => {
                    let shown = shown_name(&variable);
                    messages.notice(&format!("{}={shown:?} is ignored: {error}", EnvFilter::DEFAULT_ENV));
                    None
                }
            };
        }
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    Some(EnvFilter::default().add_directive(level.into()))
}
