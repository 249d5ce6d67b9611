//! `redquorum top`: shows the locks live.

use std::{
    io::{self, IsTerminal},
    thread,
    time::Duration,
};

use clap::Args;
use ratatui::crossterm::event::{self, Event};
use redquorum::Quorum;
use tokio::sync::mpsc;

use super::{
    inspect::interval,
    list::{list, silent_nodes},
};
use crate::{
    app::App,
    exit::Exit,
    failure::Failure,
    locked::{drawing::Drawing, of_listing, screen::Screen},
    stopwatch,
    supervise::signals::{Signals, ends},
};

/// Watch the locks
///
/// Shows the same as `list` on a terminal, with a refresh after each interval. Keys: q, Esc and Ctrl-C
/// end the command; arrows, j, k, PageUp, PageDown and Home scroll; s sorts by another column. If no quorum
/// answers, the last table stays, with the error above the table. Logs of -v are written after the end.
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// A pattern for the names: `*` is any text, `?` any character [default: all locks]
    pattern: Option<String>,
    /// The time between two refreshes
    #[arg(long = "interval", value_name = "DURATION", default_value = "1s", value_parser = interval)]
    refresh: Duration,
}

impl Top {
    /// Draws the locks until a key or a signal ends the command.
    ///
    /// # Errors
    ///
    /// A standard output that is no terminal, or no quorum at the start.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        if app.general.json {
            return Err(Failure::usage("top draws on a terminal, so it has no --json: use `list --json`"));
        }
        if !io::stdout().is_terminal() {
            return Err(Failure::usage("top draws on a terminal, which standard output is not: use `list`"));
        }
        let settings = app.settings()?;
        app.with_quorum_and_signals(&settings, settings.builder().read_only(), async |quorum, signals| {
            self.watch(quorum, signals, app).await
        })
        .await
    }

    async fn watch(&self, quorum: &Quorum, signals: &mut Signals, app: &App) -> Result<Exit, Failure> {
        let mut drawing = Drawing::begin(&app.messages)?;
        let (mut events, mut screen) = (events()?, Screen::new(self.refresh));
        let mut refreshing = Box::pin(self.list_after(quorum, Duration::ZERO));
        loop {
            drawing.draw(&mut screen)?;
            tokio::select! {
                biased;
                signal = signals.next() => {
                    if ends(signal) {
                        return Ok(Exit::Signal(signal as u8));
                    }
                }
                redraw = drawing.redraw_due() => redraw?,
                Some(event) = events.recv() => {
                    if screen.on_event(&event) {
                        return Ok(Exit::Success);
                    }
                }
                listed = &mut refreshing => {
                    match listed {
                        Ok((rows, silent)) => screen.show(rows, silent),
                        Err(failure) => screen.show_failure(failure.in_one_line()),
                    }
                    refreshing.set(self.list_after(quorum, self.refresh));
                }
            }
        }
    }

    async fn list_after(
        &self,
        quorum: &Quorum,
        delay: Duration,
    ) -> Result<(Vec<crate::locked::Row>, Vec<String>), Failure> {
        stopwatch::pause(delay).await;
        let listing = list(quorum, self.pattern.as_deref()).await?;
        Ok((of_listing(&listing), silent_nodes(&listing)))
    }
}

/// Starts a thread that reads keys and changes of the terminal's size, and returns the receiver of these events. The
/// thread ends with the process.
///
/// # Errors
///
/// [`Exit::System`] if the system refuses the thread.
fn events() -> Result<mpsc::UnboundedReceiver<Event>, Failure> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let thread = thread::Builder::new().name("keys".to_owned());
    let started = thread.spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    started.map_err(|error| Failure::not_started("a thread for keys", &error))?;
    Ok(receiver)
}
