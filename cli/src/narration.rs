//! What is said of a wait: who holds the lock, and that there is no quorum.

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
    messages::Messages,
    name,
    shortage::{Shortage, Teller},
    stopwatch,
    waiting::Waiting,
};

/// Most locks are had sooner, so nobody looks who holds them.
const BEFORE: Duration = Duration::from_millis(100);

/// A wait that is shorter is nothing to speak of.
const AT_FIRST: Duration = Duration::from_secs(1);

/// How often the nodes are asked afterwards.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long a node may take to answer on a connection of ours.
const PATIENCE: Duration = Duration::from_secs(1);

/// Says who holds the first of these names that anybody holds, if that is to be shown, on the line
/// for it and to `-v`; and that too few nodes vote for any lock, to everybody. For as long as it is
/// polled. It only looks, so the lock that is waited for does not notice.
pub(crate) async fn narrate(
    waiting: &Waiting,
    quorum: &Quorum,
    names: &[OsString],
    shows_holder: bool,
    messages: &Messages,
) -> Infallible {
    let mut teller = Teller::default();
    let mut holder = None;
    stopwatch::pause(BEFORE).await;
    let first = look(waiting, quorum, names, shows_holder, &mut holder);
    let (mut shortage, ()) = tokio::join!(first, stopwatch::pause(AT_FIRST - BEFORE));
    loop {
        if let Some(message) = teller.hear(shortage) {
            messages.notice(&message);
        }
        stopwatch::pause(INTERVAL).await;
        shortage = look(waiting, quorum, names, shows_holder, &mut holder).await;
    }
}

/// Says who holds the first name that anybody holds, and returns whether too few nodes vote.
async fn look(
    waiting: &Waiting,
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
            waiting.say(format!("waiting for {resource}, held by {owner}"));
            if holder.as_ref() != Some(&owner) {
                tracing::info!(%resource, id = %owner, "waiting: held by another client");
                *holder = Some(owner);
            }
            break;
        }
    }
    None
}

/// Who holds it, in words, if that is known.
fn holder_of(found: &Inspection) -> Option<String> {
    match found.state() {
        LockState::Shared => Some(counted(found.holds() as usize, "reader")),
        _ => found.holder().map(ToString::to_string),
    }
}

/// Says which nodes cannot be connected, if that are too many for a quorum, for as long as it is
/// polled; that this is over, the connecting client knows first. It makes connections of its own,
/// each for a moment, as long as there is no quorum that could be asked.
pub(crate) async fn narrate_connecting(
    nodes: &[NodeConnector],
    needed: usize,
    teller: &mut Teller,
    messages: &Messages,
) -> Infallible {
    let mut at_least = AT_FIRST;
    loop {
        let attempts = nodes.iter().map(async |node| {
            let Disconnected { why, .. } = NodeConnection::open(node, PATIENCE).await.err()?;
            Some((node.address().to_owned(), why))
        });
        let (connected, ()) = tokio::join!(join_all(attempts), stopwatch::pause(at_least));
        let failed = connected.into_iter().flatten();
        if let Some(shortage) = Shortage::of_connects(nodes.len(), needed, failed)
            && let Some(message) = teller.hear(Some(shortage))
        {
            messages.notice(&message);
        }
        stopwatch::pause(INTERVAL).await;
        at_least = Duration::ZERO;
    }
}
