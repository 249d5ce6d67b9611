//! `redquorum top`: shows the locks live.

use std::{
    io::{self, IsTerminal},
    thread,
    time::{Duration, Instant},
};

use clap::Args;
use ratatui::crossterm::event::{self, Event};
use redquorum::{
    __command::{connectors, list_answering},
    Quorum, QuorumBuilder,
    inspection::Listing,
};
use tokio::sync::mpsc;

use super::{
    inspect::interval,
    list::{PARTIAL_LIST, list, matcher, silent_nodes},
};
use crate::{
    app::App,
    exit::Exit,
    failure::Failure,
    locked::{TableRow, drawing::Drawing, latches_of_listing, of_listing, screen::Screen},
    settings::Settings,
    stopwatch,
    supervise::signals::{Signals, ends},
    wait_cycles::{CycleWatch, WaitCycle},
};

/// Watch the locks and latches
///
/// Shows the same as `list` on a terminal, with a refresh after each interval. Locks of clients that
/// wait for each other are marked once they have waited for a second. Keys: q, Esc and Ctrl-C end the
/// command; arrows, j, k, PageUp, PageDown and Home scroll; s sorts by another column. If fewer nodes
/// than a quorum answer, the table has the locks of these nodes, and the line above is marked as
/// partial. If no node answers, the last table stays, with the error above the table. Logs of -v are
/// written after the end.
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// A pattern for the names: `*` is any text, `?` any character [default: all locks]
    pattern: Option<String>,
    /// The time between two refreshes
    #[arg(long = "interval", value_name = "DURATION", default_value = "1s", value_parser = interval)]
    refresh: Duration,
}

/// The source of the listings.
struct ListingSource<'a> {
    /// The connected client; `None` if no quorum answered at the start.
    quorum: Option<&'a Quorum>,
    /// The builder for the listings without a quorum.
    builder: QuorumBuilder,
    nodes: usize,
    /// The number of nodes in a quorum.
    needed: usize,
    pattern: Option<&'a str>,
}

/// A list of locks, with the instant at which the list began.
struct TimedListing {
    began: Instant,
    listing: Listing,
}

impl Top {
    /// Draws the locks until a key or a signal ends the command.
    ///
    /// # Errors
    ///
    /// A standard output that is no terminal, or no answer of any node at the start.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        if app.general.json {
            return Err(Failure::usage("top draws on a terminal, so it has no --json: use `list --json`"));
        }
        if !io::stdout().is_terminal() {
            return Err(Failure::usage("top draws on a terminal, which standard output is not: use `list`"));
        }
        let settings = app.settings()?;
        let nodes = connectors(&settings.builder())?.len();
        let watched = app.with_quorum_and_signals(
            &settings,
            settings.builder().read_only(),
            async |quorum, signals| {
                self.watch(&self.source(&settings, nodes, Some(quorum)), signals, app).await
            },
        );
        match watched.await {
            Err(failure) if failure.exit == Exit::NoQuorum => {
                self.watch_without_quorum(&self.source(&settings, nodes, None), failure, app).await
            }
            watched => watched,
        }
    }

    /// Draws the locks of the nodes that answer, after a `failure` to connect to a quorum.
    ///
    /// # Errors
    ///
    /// The failure, if no node answers.
    async fn watch_without_quorum(
        &self,
        source: &ListingSource<'_>,
        failure: Failure,
        app: &App,
    ) -> Result<Exit, Failure> {
        let mut signals = Signals::register()?;
        tokio::select! {
            biased;
            signal = signals.end(&app.messages) => return Ok(Exit::Signal(signal as u8)),
            // The failure names every node, so the failure of this listing has nothing to add.
            listed = source.list() => listed.map_err(|_| failure)?,
        };
        self.watch(source, &mut signals, app).await
    }

    fn source<'a>(
        &'a self,
        settings: &Settings,
        nodes: usize,
        quorum: Option<&'a Quorum>,
    ) -> ListingSource<'a> {
        let needed = settings.effective.votes_needed;
        ListingSource { quorum, builder: settings.builder(), nodes, needed, pattern: self.pattern.as_deref() }
    }

    async fn watch(
        &self,
        source: &ListingSource<'_>,
        signals: &mut Signals,
        app: &App,
    ) -> Result<Exit, Failure> {
        let mut drawing = Drawing::begin(&app.messages)?;
        let (mut events, mut screen) = (events()?, Screen::new(self.refresh));
        let mut cycles = CycleWatch::default();
        let mut refreshing = Box::pin(source.list_after(Duration::ZERO));
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
                        Ok(TimedListing { began, listing }) => {
                            let cycles = cycles.look(&listing, began, stopwatch::now());
                            screen.show(rows(&listing, &cycles), source.notices(&listing, &cycles));
                        }
                        Err(failure) => screen.show_failure(failure.in_one_line()),
                    }
                    refreshing.set(source.list_after(self.refresh));
                }
            }
        }
    }
}

impl ListingSource<'_> {
    async fn list_after(&self, delay: Duration) -> Result<TimedListing, Failure> {
        stopwatch::pause(delay).await;
        let began = stopwatch::now();
        Ok(TimedListing { began, listing: self.list().await? })
    }

    /// Returns the lines above the rows: the nodes that did not answer, and the cycles.
    fn notices(&self, listing: &Listing, cycles: &[WaitCycle]) -> Vec<String> {
        let partial = self.is_partial(listing).then(|| PARTIAL_LIST.to_owned());
        let cycles = cycles.iter().map(|cycle| format!("* {}", cycle.shown(true)));
        partial.into_iter().chain(silent_nodes(listing)).chain(cycles).collect()
    }

    /// Lists the locks by a quorum. Without a quorum, lists the locks of the nodes that answer.
    ///
    /// # Errors
    ///
    /// No answer of any node.
    async fn list(&self) -> Result<Listing, Failure> {
        let answering = async || list_answering(&self.builder, matcher(self.pattern)).await;
        let Some(quorum) = self.quorum else { return Ok(answering().await?) };
        match list(quorum, self.pattern).await {
            // The failure names every node, so the failure of the second listing has nothing to add.
            Err(failure) if failure.exit == Exit::NoQuorum => answering().await.map_err(|_| failure),
            listed => listed,
        }
    }

    /// Whether fewer nodes than a quorum have answered, so that locks may be missing.
    fn is_partial(&self, listing: &Listing) -> bool {
        self.nodes.saturating_sub(listing.silent().count()) < self.needed
    }
}

/// Returns the rows of the locks and latches, in the order of `list`.
fn rows(listing: &Listing, cycles: &[WaitCycle]) -> Vec<TableRow> {
    let locks = of_listing(listing, cycles).into_iter().map(|row| row.table_row);
    locks.chain(latches_of_listing(listing).into_iter().map(|row| row.table_row)).collect()
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
