//! `redquorum top`: what is locked, again and again.

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
    list::{silent, wanted},
};
use crate::{
    app::App,
    exit::Exit,
    failure::Failure,
    locked::{drawing::Drawing, of_listing, screen::Screen},
    stopwatch,
    supervise::signals::{Signals, ends},
};

/// Watch what is locked
///
/// The same as `list`, on a terminal and looked at again after each interval. Keys: q, Esc and Ctrl-C
/// end it; arrows, j, k, PageUp and PageDown scroll; s sorts by another column. That no quorum can
/// be asked is said above the table, which stays. What -v logs is told when it has ended.
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// Only names like this one: `*` stands for any text, `?` for any character
    pattern: Option<String>,
    /// How long it waits before it looks again
    #[arg(long = "interval", value_name = "DURATION", default_value = "1s", value_parser = interval)]
    refresh: Duration,
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
        app.with_quorum_and_signals(&settings, settings.builder().read_only(), async |quorum, signals| {
            self.watch(quorum, signals, app).await
        })
        .await
    }

    async fn watch(&self, quorum: &Quorum, signals: &mut Signals, app: &App) -> Result<Exit, Failure> {
        let mut drawing = Drawing::begin(&app.messages)?;
        let (mut events, mut screen) = (events(), Screen::new(self.refresh));
        let mut looking = Box::pin(self.look(quorum, Duration::ZERO));
        loop {
            drawing.draw(&mut screen)?;
            tokio::select! {
                biased;
                signal = signals.next() => {
                    if ends(signal) {
                        return Ok(Exit::Signal(signal as u8));
                    }
                }
                wanted = drawing.is_wanted() => wanted?,
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
