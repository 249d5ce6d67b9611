//! `redquorum inspect`: who holds it.

use std::{convert::Infallible, ffi::OsString, os::unix::ffi::OsStrExt, time::Duration};

use clap::{Args, value_parser};
use console::{Term, measure_text_width};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use redquorum::{Quorum, inspection::LockState};

use crate::{
    app::App, changes::Changes, counted::counted, duration, exit::Exit, failure::Failure,
    lock_view::LockView, name, stopwatch,
};

/// So many slots are asked about at once.
const AT_ONCE: usize = 64;

/// The largest number of permits of a semaphore.
const MOST_PERMITS: u32 = 1024;

/// More looks would only load the nodes.
const LEAST_INTERVAL: Duration = Duration::from_millis(50);

/// Show who holds a lock, node by node
///
/// For each node: the owner, how many holds it has, how long the node keeps the lock unless it is
/// renewed, the fencing counter, and how long the node took to answer. Below, why nodes do not
/// vote, and the quorum's conclusion. The answers are of the moment at which the nodes gave them:
/// what they say may be otherwise by now. Nothing is written to nodes that no client has registered
/// yet.
#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// What is locked
    name: OsString,
    /// Show the slots of a semaphore instead, so many of them: 1 to 1024
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = value_parser!(u32).range(1..=1024))]
    permits: Option<u32>,
    /// Look again after each INTERVAL, of 1s unless another is given, and print what has changed but
    /// for the time that passes; on a terminal, show it anew each time
    #[arg(long = "watch", value_name = "INTERVAL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1s", value_parser = interval)]
    interval: Option<Duration>,
}

pub(super) fn interval(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(interval) if interval < LEAST_INTERVAL => {
            Err(format!("it is too short: give {LEAST_INTERVAL:?} or more"))
        }
        parsed => parsed,
    }
}

impl Inspect {
    /// Asks all nodes.
    ///
    /// # Errors
    ///
    /// Why no quorum of them could be asked.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        app.with_quorum_of(&settings, settings.builder().read_only(), async |quorum| {
            if let Some(interval) = self.interval {
                return self.watch(quorum, interval, app).await.map(|never| match never {});
            }
            let mut from = 0;
            while from < self.slots() {
                for view in self.look(quorum, from).await? {
                    app.output.print(&view)?;
                }
                from += AT_ONCE;
            }
            self.tell_excess_slots(quorum, app).await;
            Ok(Exit::Success)
        })
        .await
    }

    /// Says that other clients count more permits, if slots beyond these are held.
    async fn tell_excess_slots(&self, quorum: &Quorum, app: &App) {
        let Some(permits) = self.permits else { return };
        let excess = excess_slots(quorum, self.name.as_bytes(), permits).await;
        if let Ok([slots @ .., last]) = excess.as_deref() {
            let (name, count) = (name::shown(self.name.as_bytes()), counted(slots.len() + 1, "slot"));
            app.messages.notice(&format!(
                "{count} of {name} in use beyond these, up to slot {last}: others count more than {}",
                counted(permits as usize, "permit")
            ));
        }
    }

    /// How many there are to look at: a lock is one.
    fn slots(&self) -> usize {
        self.permits.map_or(1, |permits| permits as usize)
    }

    /// Looks at those from this one on, but not at too many at once.
    async fn look(&self, quorum: &Quorum, from: usize) -> Result<Vec<LockView>, Failure> {
        let resource = self.name.as_bytes();
        let Some(permits) = self.permits else {
            return Ok(vec![LockView::new(resource, &quorum.inspect(resource).await?)]);
        };
        let semaphore = quorum.semaphore(resource, permits);
        let inspected = (0..permits as usize).skip(from).take(AT_ONCE).map(async |slot| {
            let found = quorum.inspect(semaphore.slot_resource(slot)?).await?;
            Ok::<_, Failure>(LockView::of_slot(resource, slot, &found))
        });
        try_join_all(inspected).await
    }

    /// Looks again and again. That no quorum can be asked is said once, and waited out, unless it is
    /// so at the beginning.
    async fn watch(&self, quorum: &Quorum, interval: Duration, app: &App) -> Result<Infallible, Failure> {
        let screen = Some(Term::stdout()).filter(|screen| screen.is_term() && !app.general.json);
        let (mut changes, mut is_first, mut is_told, mut drawn) = (Changes::default(), true, false, 0);
        // Signals do what they do to anybody: nothing is held.
        loop {
            match self.look_at_all(quorum).await {
                Ok(views) => {
                    let changed = changes.of(&views)?;
                    let shown = if screen.is_some() { views.iter().collect() } else { changed };
                    if let Some(screen) = &screen {
                        drawn = redraw(screen, &shown, drawn);
                    }
                    for view in shown {
                        app.output.print(view)?;
                    }
                    is_told = false;
                }
                Err(failure) if is_first || failure.exit != Exit::NoQuorum => return Err(failure),
                Err(failure) => {
                    if !is_told {
                        app.messages.notice(&failure.in_one_line());
                        // What was drawn stays above the notice.
                        drawn = 0;
                    }
                    is_told = true;
                }
            }
            is_first = false;
            stopwatch::pause(interval).await;
        }
    }

    async fn look_at_all(&self, quorum: &Quorum) -> Result<Vec<LockView>, Failure> {
        let mut views = Vec::new();
        while views.len() < self.slots() {
            views.extend(self.look(quorum, views.len()).await?);
        }
        Ok(views)
    }
}

/// The slots of a semaphore that a quorum names a lease on, beyond the number of permits.
async fn excess_slots(quorum: &Quorum, semaphore: &[u8], permits: u32) -> Result<Vec<usize>, Failure> {
    let largest = quorum.semaphore(semaphore, MOST_PERMITS);
    let inspected = stream::iter(permits as usize..MOST_PERMITS as usize).map(async |slot| {
        let found = quorum.inspect(largest.slot_resource(slot)?).await?;
        Ok::<_, Failure>((found.state() == LockState::Held).then_some(slot))
    });
    let held: Vec<Option<usize>> = inspected.buffered(AT_ONCE).try_collect().await?;
    Ok(held.into_iter().flatten().collect())
}

/// Clears what was drawn, so many lines, and returns how many these are going to be. A terminal that
/// is gone is no error here: writing to it is one.
fn redraw(screen: &Term, views: &[&LockView], drawn: usize) -> usize {
    let (rows, columns) = screen.size();
    screen.clear_last_lines(drawn.min(usize::from(rows).saturating_sub(1))).ok();
    // A line that is too long for the terminal takes several of its lines.
    let columns = usize::from(columns).max(1);
    let taken = |line: &str| measure_text_width(line).div_ceil(columns).max(1);
    views.iter().map(|view| view.to_string().lines().map(taken).sum::<usize>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_would_only_load_the_nodes_is_refused() {
        assert_eq!(interval("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(interval("0").unwrap_err(), "it is too short: give 50ms or more");
        assert!(interval("1").unwrap_err().contains("the unit is missing"));
    }
}
