//! The reports during a wait: the holder of the lock, the arrivals at a latch, and a shortage of votes. `run` and
//! `elect` report on the wait for a lock, `latch` on the wait for a latch, `observe` on shortages, and `app` and `init`
//! on the wait for connections.

use std::{convert::Infallible, ffi::OsString, os::unix::ffi::OsStrExt, time::Duration};

use futures::future::join_all;
use redquorum::{
    __command::NodeConnector,
    Quorum,
    inspection::{Inspection, LockState},
};

use crate::{
    connect::{Disconnected, NodeConnection},
    counted::counted,
    latch_view::LatchView,
    messages::Messages,
    name,
    shortage::{Shortage, ShortageReporter},
    stopwatch,
    waiting::WaitLine,
};

/// The time before the first inspection. Most locks are acquired sooner, and need no inspection.
const FIRST_INSPECTION: Duration = Duration::from_millis(100);

/// The time before the first report of a shortage. Shorter waits have no report.
const FIRST_REPORT: Duration = Duration::from_secs(1);

/// The interval of later inspections.
const INTERVAL: Duration = Duration::from_secs(2);

/// The interval of inspections by an observer, if the last inspection found no shortage.
const OBSERVER_INTERVAL: Duration = Duration::from_secs(5);

/// The time limit of an answer on a plain connection.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

/// Reports on the wait for a lock, until the future is dropped.
///
/// With `shows_holder`, the holder of the first held name is shown in the line of the wait and logged. A
/// shortage of votes is a notice. The inspections do not affect the lock call.
pub(crate) async fn report_wait(
    waiting: &WaitLine,
    quorum: &Quorum,
    names: &[OsString],
    shows_holder: bool,
    reporter: &mut ShortageReporter,
    messages: &Messages,
) -> Infallible {
    let mut holder = None;
    stopwatch::pause(FIRST_INSPECTION).await;
    let first = report_holder(waiting, quorum, names, shows_holder, &mut holder);
    let (mut shortage, ()) = tokio::join!(first, stopwatch::pause(FIRST_REPORT - FIRST_INSPECTION));
    loop {
        if let Some(message) = reporter.report(shortage) {
            messages.notice(&message);
        }
        stopwatch::pause(INTERVAL).await;
        shortage = report_holder(waiting, quorum, names, shows_holder, &mut holder).await;
    }
}

/// Reports a shortage of votes while a command observes a resource, until the future is dropped.
///
/// An observer waits without a time limit. Without a shortage, the inspections are therefore rarer than during a wait
/// for a lock.
pub(crate) async fn report_shortage(quorum: &Quorum, name: &[u8], messages: &Messages) -> Infallible {
    let mut reporter = ShortageReporter::default();
    stopwatch::pause(FIRST_REPORT).await;
    loop {
        let shortage = Shortage::of_inspection(&quorum.inspect(name).await);
        let interval = if shortage.is_some() { INTERVAL } else { OBSERVER_INTERVAL };
        if let Some(message) = reporter.report(shortage) {
            messages.notice(&message);
        }
        stopwatch::pause(interval).await;
    }
}

/// Reports on the wait for a latch, until the future is dropped: the arrivals in the line of the wait, and a shortage of
/// votes as a notice.
pub(crate) async fn report_latch_wait(
    waiting: &WaitLine,
    quorum: &Quorum,
    latch: &[u8],
    reporter: &mut ShortageReporter,
    messages: &Messages,
) -> Infallible {
    stopwatch::pause(FIRST_REPORT).await;
    loop {
        let found = quorum.inspect(latch).await;
        if let Some(message) = reporter.report(Shortage::of_inspection(&found)) {
            messages.notice(&message);
        }
        if let Ok(found) = found {
            let view = LatchView::of_inspection(latch, None, &found);
            waiting.set_message(format!("waiting for latch {}: {}", name::shown(latch), view.arrivals()));
        }
        stopwatch::pause(INTERVAL).await;
    }
}

/// Inspects the names, reports the holder of the first held name, and returns the shortage, if there is one.
async fn report_holder(
    waiting: &WaitLine,
    quorum: &Quorum,
    names: &[OsString],
    shows_holder: bool,
    holder: &mut Option<String>,
) -> Option<Shortage> {
    for name in names {
        let found = quorum.inspect(name.as_bytes()).await;
        let shortage = Shortage::of_inspection(&found);
        if shortage.is_some() {
            return shortage;
        }
        if let Some(owner) = found.ok().filter(|_| shows_holder).and_then(|found| holder_of(&found)) {
            let resource = name::shown(name.as_bytes());
            waiting.set_message(format!("waiting for {resource}, held by {owner}"));
            if holder.as_ref() != Some(&owner) {
                tracing::info!(%resource, id = %owner, "waiting: held by another client");
                *holder = Some(owner);
            }
            break;
        }
    }
    None
}

/// Returns the holder, or the number of readers; `None` if no quorum names a holder.
fn holder_of(found: &Inspection) -> Option<String> {
    match found.state() {
        LockState::Shared => Some(counted(found.holds() as usize, "reader")),
        _ => found.holder().map(ToString::to_string),
    }
}

/// Reports the nodes that cannot be connected, if too few nodes remain for a quorum, until the future is dropped.
///
/// The client is not connected yet, so the nodes are tried with short plain connections, once the client has not
/// connected for [`FIRST_REPORT`]. A connection costs the server as much as the connection of a client, so a command
/// that connects at once dials each node only once. The caller reports the end of the shortage, because the client that
/// connects detects the end first. `summary` begins the reports.
pub(crate) async fn report_connecting(
    nodes: &[NodeConnector],
    needed: usize,
    summary: &'static str,
    reporter: &mut ShortageReporter,
    messages: &Messages,
) -> Infallible {
    stopwatch::pause(FIRST_REPORT).await;
    loop {
        let attempts = nodes.iter().map(async |node| {
            let Disconnected { reason, .. } = NodeConnection::open(node, ANSWER_TIMEOUT).await.err()?;
            Some((node.address().to_owned(), reason))
        });
        let failed = join_all(attempts).await.into_iter().flatten();
        if let Some(shortage) = Shortage::of_connects(nodes.len(), needed, summary, failed)
            && let Some(message) = reporter.report(Some(shortage))
        {
            messages.notice(&message);
        }
        stopwatch::pause(INTERVAL).await;
    }
}
