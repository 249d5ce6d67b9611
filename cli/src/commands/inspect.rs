//! `redquorum inspect`: shows the holder of a lock, node by node.

use std::{
    collections::BTreeMap, convert::Infallible, ffi::OsString, fmt, os::unix::ffi::OsStrExt, time::Duration,
};

use clap::Args;
use console::{Term, measure_text_width};
use futures::{StreamExt, TryStreamExt, future::try_join_all, stream};
use redquorum::{__command::connectors, Quorum, error::Error, inspection::LockState};
use serde::Serialize;

use crate::{
    app::App,
    at_least::AtLeast,
    changes::Changes,
    counted::counted,
    duration,
    exit::Exit,
    failure::Failure,
    lock_view::LockView,
    locked::{Row, lines},
    name, number,
    partial_view::with_holders,
    stopwatch, table,
};

/// The number of slots that are inspected in parallel.
const SLOTS_IN_PARALLEL: usize = 64;

/// The largest number of permits of a semaphore.
const MAX_PERMITS: u32 = 1024;

/// The smallest interval of `inspect --watch` and of `top`. A smaller interval would only load the nodes.
const MIN_INTERVAL: Duration = Duration::from_millis(50);

/// Show the holder of a lock, node by node, and its waiters
///
/// Shows for each node the owner, its number of holds, the remaining ttl without a renewal, the
/// fencing counter and the latency; then the reasons of nodes that do not vote, the waiters (of an
/// election, the candidates), the latch of the same name, and the quorum's conclusion. An answer shows
/// the state at the time of the answer, and may be outdated. The command does not register with the
/// nodes, so new nodes stay unchanged.
#[derive(Args, Debug)]
pub(crate) struct Inspect {
    /// The name of the lock
    name: OsString,
    /// Show this number of slots of a semaphore instead: 1 to 1024
    #[arg(short = 'n', long, value_name = "COUNT", value_parser = number::within(1_u32..=1024))]
    #[arg(allow_negative_numbers = true)]
    permits: Option<u32>,
    /// Show the multi-permit lock of a semaphore instead, by which clients that acquire several permits take
    /// turns
    #[arg(long, conflicts_with = "permits")]
    multi_permit: bool,
    /// Inspect again after each INTERVAL (1s by default) and print the changes, except changes of
    /// times; on a terminal, redraw each time
    #[arg(long = "watch", value_name = "INTERVAL", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "1s", value_parser = interval)]
    interval: Option<Duration>,
}

/// Parses the interval of `inspect --watch` or of `top`.
pub(super) fn interval(text: &str) -> Result<Duration, String> {
    match duration::parse(text) {
        Ok(interval) if interval < MIN_INTERVAL => {
            Err(format!("too short, because it would only load the nodes: give {MIN_INTERVAL:?} or more"))
        }
        parsed => parsed,
    }
}

impl Inspect {
    /// Inspects all nodes and prints the answers.
    ///
    /// # Errors
    ///
    /// Fewer answers than a quorum.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        let settings = app.settings()?;
        let inspected = app.with_quorum_of(&settings, settings.builder().read_only(), async |quorum| {
            if let Some(interval) = self.interval {
                return self.watch(quorum, interval, app).await.map(|never| match never {});
            }
            match self.permits {
                Some(permits) if !app.general.json => {
                    app.output.print(&self.slot_table(quorum, permits).await?)?
                }
                _ => {
                    let mut from = 0;
                    while from < self.slots() {
                        for view in self.views_from(quorum, from).await? {
                            app.output.print(&view)?;
                        }
                        from += SLOTS_IN_PARALLEL;
                    }
                }
            }
            self.report_excess_slots(quorum, app).await;
            Ok(Exit::Success)
        });
        match inspected.await {
            Err(failure) if failure.exit == Exit::NoQuorum && self.permits.is_none() => {
                let nodes = connectors(&settings.builder())?;
                Err(with_holders(failure, &nodes, self.name.as_bytes()).await)
            }
            inspected => inspected,
        }
    }

    /// Reports held slots beyond the given number of permits. Other clients then use a larger number of permits.
    async fn report_excess_slots(&self, quorum: &Quorum, app: &App) {
        let Some(permits) = self.permits else { return };
        let excess = excess_slots(quorum, self.name.as_bytes(), permits).await;
        let (name, permits) = (name::shown(self.name.as_bytes()), counted(permits as usize, "permit"));
        match excess.as_deref() {
            Ok([slots @ .., last]) => {
                let count = counted(slots.len() + 1, "slot");
                app.messages.notice(&format!(
                    "{count} of {name} in use beyond {permits}, up to slot {last}: other clients count more permits; \
                     use the same number everywhere"
                ));
            }
            Ok([]) => {}
            Err(failure) => {
                let reason = failure.in_one_line();
                app.messages.notice(&format!("{name} may have slots in use beyond {permits}: {reason}"));
            }
        }
    }

    /// Returns the number of slots to inspect. A lock counts as one slot.
    fn slots(&self) -> usize {
        self.permits.map_or(1, |permits| permits as usize)
    }

    /// Inspects at most [`SLOTS_IN_PARALLEL`] slots, beginning with the slot `from`, or the lock.
    async fn views_from(&self, quorum: &Quorum, from: usize) -> Result<Vec<LockView>, Failure> {
        let resource = self.name.as_bytes();
        if self.multi_permit {
            let found = quorum.inspect(quorum.semaphore(resource, 1).multi_permit_resource()?).await?;
            return Ok(vec![LockView::of_multi_permit(resource, &found)]);
        }
        let Some(permits) = self.permits else {
            return Ok(vec![LockView::new(resource, &quorum.inspect(resource).await?)]);
        };
        let semaphore = quorum.semaphore(resource, permits);
        let inspected = (0..permits as usize).skip(from).take(SLOTS_IN_PARALLEL).map(async |slot| {
            let found = quorum.inspect(semaphore.slot_resource(slot)?).await?;
            Ok::<_, Failure>(LockView::of_slot(resource, slot, &found))
        });
        try_join_all(inspected).await
    }

    /// Inspects all slots of a semaphore with this number of permits.
    async fn slot_table(&self, quorum: &Quorum, permits: u32) -> Result<SlotTable, Failure> {
        let name = self.name.as_bytes();
        let semaphore = quorum.semaphore(name, permits);
        let inspected = stream::iter(0..permits as usize).map(async |slot| {
            let found = quorum.inspect(semaphore.slot_resource(slot)?).await?;
            Ok::<_, Failure>(Row::of_slot(name, slot, &found))
        });
        let rows = inspected.buffered(SLOTS_IN_PARALLEL).try_collect().await?;
        Ok(SlotTable { name: name::shown(name), rows })
    }

    /// Inspects repeatedly, and prints the changes, or redraws the views on a terminal. If no quorum answers the first
    /// inspection, the command fails. If no quorum answers a later inspection, the failure is reported once, and the
    /// inspections continue.
    async fn watch(&self, quorum: &Quorum, interval: Duration, app: &App) -> Result<Infallible, Failure> {
        let screen = Some(Term::stdout()).filter(|screen| screen.is_term() && !app.general.json);
        let (mut changes, mut is_reported, mut drawn) = (Changes::default(), false, 0);
        // The time of the last views.
        let mut seen_at = None;
        // Signals have their default effect, because there is no lease to unlock.
        loop {
            match self.all_views(quorum).await {
                Ok(views) => {
                    let changed = changes.update(&views)?;
                    let shown = if screen.is_some() { views.iter().collect() } else { changed };
                    if let Some(screen) = &screen {
                        // The line about the age of the last drawing is below the notice.
                        let to_clear = if is_reported { 1 } else { drawn };
                        drawn = redraw(screen, &shown, to_clear);
                    }
                    for view in shown {
                        app.output.print(view)?;
                    }
                    (is_reported, seen_at) = (false, Some(stopwatch::now()));
                }
                Err(failure) => {
                    let Some(seen_at) = seen_at.filter(|_| failure.exit == Exit::NoQuorum) else {
                        return Err(failure);
                    };
                    // The last drawing stays above the notice.
                    if !is_reported {
                        app.messages.notice(&failure.in_one_line());
                        app.messages.flush();
                    }
                    if let Some(screen) = &screen {
                        screen.clear_last_lines(usize::from(is_reported)).ok();
                        let age = duration::shown(seen_at.elapsed());
                        screen.write_line(&format!("the state above is {age} old: no quorum answers")).ok();
                    }
                    is_reported = true;
                }
            }
            stopwatch::pause(interval).await;
        }
    }

    async fn all_views(&self, quorum: &Quorum) -> Result<Vec<LockView>, Failure> {
        let mut views = Vec::new();
        while views.len() < self.slots() {
            views.extend(self.views_from(quorum, views.len()).await?);
        }
        Ok(views)
    }
}

/// The slots of a semaphore, with a row for each slot. With `--json`, `inspect` prints the view of each slot instead.
#[derive(Serialize)]
struct SlotTable {
    #[serde(skip)]
    name: String,
    rows: Vec<Row>,
}

impl fmt::Display for SlotTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.iter().map(|row| &row.table_row);
        writeln!(f, "{}", lines(rows, table::width()).join("\n"))?;
        // The reason of a node is about the same for each slot.
        let mut reasons = BTreeMap::new();
        for (node, reason) in self.rows.iter().flat_map(|row| row.view.reasons()) {
            reasons.entry(node).or_insert(reason);
        }
        for (node, reason) in reasons {
            writeln!(f, "{}", table::wrapped(&format!("{node}: {reason}"), table::width()))?;
        }
        // As for a lock, only a terminal shows the advice.
        let advice = LockView::slot_advice(self.rows.iter().map(|row| &row.view), table::width());
        if let Some(advice) = advice.filter(|_| table::width().is_some()) {
            writeln!(f, "{advice}")?;
        }
        let used = self.rows.iter().filter(|row| !row.view.is_free()).count();
        write!(f, "{used} of {} of {} in use", counted(self.rows.len(), "permit"), self.name)?;
        match LockView::waiters_of_any(self.rows.iter().map(|row| &row.view)) {
            AtLeast { number: 0, .. } => Ok(()),
            waiters => write!(f, ", {}", waiters.counted("waiter")),
        }
    }
}

/// Returns the held slots beyond the number of permits.
async fn excess_slots(quorum: &Quorum, semaphore: &[u8], permits: u32) -> Result<Vec<usize>, Failure> {
    let largest = quorum.semaphore(semaphore, MAX_PERMITS);
    let inspected = stream::iter(permits as usize..MAX_PERMITS as usize).map(async |slot| {
        let resource = largest.slot_resource(slot)?;
        let found = match quorum.inspect(resource.clone()).await {
            // On a busy machine, one of a thousand inspections may be too late.
            Err(Error::NoQuorum(_)) => quorum.inspect(resource).await,
            found => found,
        };
        Ok::<_, Failure>((found?.state() == LockState::Held).then_some(slot))
    });
    let held: Vec<Option<usize>> = inspected.buffered(SLOTS_IN_PARALLEL).try_collect().await?;
    Ok(held.into_iter().flatten().collect())
}

/// Clears the `drawn` lines of the last drawing, and returns the number of lines of the next drawing. Errors are
/// ignored, because the next write reports a closed terminal.
fn redraw(screen: &Term, views: &[&LockView], drawn: usize) -> usize {
    let (rows, columns) = screen.size();
    screen.clear_last_lines(drawn.min(usize::from(rows).saturating_sub(1))).ok();
    // A line that is wider than the terminal takes several lines.
    let columns = usize::from(columns).max(1);
    let height = |line: &str| measure_text_width(line).div_ceil(columns).max(1);
    views.iter().map(|view| view.to_string().lines().map(height).sum::<usize>()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_below_the_minimum_is_refused() {
        assert_eq!(interval("50ms"), Ok(Duration::from_millis(50)));
        let error = interval("0").unwrap_err();
        assert_eq!(error, "too short, because it would only load the nodes: give 50ms or more");
        assert!(interval("1").unwrap_err().contains("the unit is missing"));
    }
}
