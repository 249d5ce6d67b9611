//! `redquorum top`: what is locked, again and again.

use std::{
    io::{self, IsTerminal},
    thread,
    time::Duration,
};

use clap::Args;
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event},
};
use redquorum::Quorum;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::mpsc,
};

use super::{
    inspect::interval,
    list::{silent, wanted},
};
use crate::{
    app::App,
    exit::Exit,
    failure::Failure,
    locked::{of_listing, screen::Screen},
    stopwatch,
};

/// Watch what is locked
///
/// The same as `list`, on a terminal and looked at again after each interval. Keys: q, Esc and Ctrl-C
/// end it; arrows, j, k, PageUp and PageDown scroll; s sorts by another column. That no quorum can
/// be asked is said above the table, which stays.
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Only names like this one: `*` stands for any text, `?` for any character
    pattern: Option<String>,
    /// How long it waits before it looks again
    #[arg(long = "interval", value_name = "DURATION", default_value = "1s", value_parser = interval)]
    refresh: Duration,
}

/// Gives the terminal back as it was.
struct Drawing(DefaultTerminal);

impl Drawing {
    fn begin() -> Result<Self, Failure> {
        ratatui::try_init().map(Self).map_err(|error| Failure::internal("drawing on the terminal", error))
    }
}

impl Drop for Drawing {
    fn drop(&mut self) {
        // Where the terminal is gone, there is nothing to give back.
        ratatui::try_restore().ok();
    }
}

impl Top {
    /// Looks and draws until it is told to end.
    ///
    /// # Errors
    ///
    /// That there is no terminal to draw on, or no quorum at the beginning.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        if app.general.json {
            return Err(Failure::usage("top draws on a terminal and has no --json: use `list --json`"));
        }
        if !io::stdout().is_terminal() {
            return Err(Failure::usage("top draws on a terminal, which standard output is not: use `list`"));
        }
        let settings = app.settings()?;
        app.with_quorum_of(&settings, settings.builder().read_only(), async |quorum| self.watch(quorum).await)
            .await
    }

    async fn watch(&self, quorum: &Quorum) -> Result<Exit, Failure> {
        let mut signals = [SignalKind::terminate(), SignalKind::hangup(), SignalKind::interrupt()]
            .map(|kind| signal(kind).map_err(|error| Failure::internal("signals", error)));
        let [terminate, hangup, interrupt] = &mut signals;
        let mut drawing = Drawing::begin()?;
        let (mut events, mut screen) = (events(), Screen::new(self.refresh));
        let mut looking = Box::pin(self.look(quorum, Duration::ZERO));
        loop {
            let drawn = drawing.0.draw(|frame| screen.draw(frame));
            drawn.map_err(|error| Failure::output(&error))?;
            tokio::select! {
                biased;
                exit = told(terminate, 15) => return exit,
                exit = told(hangup, 1) => return exit,
                exit = told(interrupt, 2) => return exit,
                Some(event) = events.recv() => {
                    if screen.hear(&event) {
                        return Ok(Exit::Success);
                    }
                }
                found = &mut looking => {
                    match found {
                        Ok((rows, silent)) => screen.show(rows, silent),
                        Err(failure) => screen.fail(failure.in_one_line()),
                    }
                    looking.set(self.look(quorum, self.refresh));
                }
            }
        }
    }

    async fn look(
        &self,
        quorum: &Quorum,
        after: Duration,
    ) -> Result<(Vec<crate::locked::Row>, Vec<String>), Failure> {
        stopwatch::pause(after).await;
        let listing = wanted(quorum, self.pattern.as_deref()).await?;
        Ok((of_listing(&listing), silent(&listing)))
    }
}

/// Ready when the signal comes, with the end that it brings.
async fn told(signal: &mut Result<Signal, Failure>, number: u8) -> Result<Exit, Failure> {
    if let Ok(signal) = signal {
        signal.recv().await;
        return Ok(Exit::Signal(number));
    }
    std::future::pending().await
}

/// Keys and changes of the terminal's size. The thread that reads them ends with the process.
fn events() -> mpsc::UnboundedReceiver<Event> {
    let (sender, receiver) = mpsc::unbounded_channel();
    thread::spawn(move || {
        while let Ok(event) = event::read() {
            if sender.send(event).is_err() {
                return;
            }
        }
    });
    receiver
}
