//! What is waited for, shown on a terminal.

use std::{
    convert::Infallible,
    ffi::OsString,
    io::{IsTerminal, stderr},
    os::unix::ffi::OsStrExt,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use redquorum::Quorum;

/// A line on standard error that says what is waited for, and is gone when this is dropped. Nothing unless that is a terminal.
#[derive(Debug)]
pub(crate) struct Waiting {
    bar: ProgressBar,
}

impl Waiting {
    /// How often the line moves.
    const TICK: Duration = Duration::from_millis(120);

    /// Begins to show it; `is_shown` is false where `--json` was asked for.
    pub(crate) fn show(message: String, is_shown: bool) -> Self {
        if !is_shown || !stderr().is_terminal() {
            return Self { bar: ProgressBar::hidden() };
        }
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})");
        let bar = ProgressBar::new_spinner().with_message(message);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        bar.enable_steady_tick(Self::TICK);
        Self { bar }
    }

    /// Whether anybody sees it: if not, there is no use in finding out what to say.
    pub(crate) fn is_seen(&self) -> bool {
        !self.bar.is_hidden()
    }

    /// Says something else.
    pub(crate) fn say(&self, message: String) {
        self.bar.set_message(message);
    }
}

/// Whether anybody sees what is shown on standard error.
pub(crate) fn is_terminal() -> bool {
    stderr().is_terminal()
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How often the nodes are asked who holds what is waited for.
const INTERVAL: Duration = Duration::from_secs(2);

/// Says who holds the first of these names that anybody holds, for as long as it is polled. Asks nobody if nobody sees it.
pub(crate) async fn narrate(waiting: &Waiting, quorum: &Quorum, names: &[OsString]) -> Infallible {
    if !waiting.is_seen() {
        return std::future::pending().await;
    }
    loop {
        for name in names {
            if let Ok(found) = quorum.red_lock(name.as_bytes()).inspect().await
                && let Some(owner) = found.owner()
            {
                waiting.say(format!("waiting for {}, held by {owner}", name.to_string_lossy()));
                break;
            }
        }
        #[expect(clippy::disallowed_methods, reason = "it is for the eye")]
        tokio::time::sleep(INTERVAL).await;
    }
}
