//! The holders that the error of `run` names if other clients held the lock until the end of the wait.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use futures::future::join_all;
use redquorum::Quorum;

use crate::lock_view::LockView;

/// The largest number of resources that are inspected, in parallel.
const MAX_INSPECTED: usize = 64;

/// The largest number of resources whose holders are named.
const MAX_NAMED: usize = 4;

/// Inspects the resources of a lock, and returns a line for each of the first held resources. A resource without
/// answers from a quorum is left out.
///
/// If the lock has one resource, and no quorum names its holder, returns the answer of each node instead.
pub(crate) async fn of_lock(quorum: &Quorum, names: &[OsString]) -> Vec<String> {
    let inspected = names.iter().take(MAX_INSPECTED).map(async |name| {
        let name = name.as_bytes();
        Some(LockView::new(name, &quorum.inspect(name).await.ok()?))
    });
    let views: Vec<LockView> = join_all(inspected).await.into_iter().flatten().collect();
    match (names, &*views) {
        ([_], [view]) if !view.has_holder() => view.answers(),
        _ => conclusions(&views),
    }
}

/// Inspects the slots of a semaphore, and returns a line for each of the first held slots.
pub(crate) async fn of_semaphore(quorum: &Quorum, name: &[u8], permits: u32) -> Vec<String> {
    let semaphore = quorum.semaphore(name, permits);
    let inspected = (0..permits as usize).take(MAX_INSPECTED).map(async |slot| {
        let found = quorum.inspect(semaphore.slot_resource(slot).ok()?).await.ok()?;
        Some(LockView::of_slot(name, slot, &found))
    });
    let views: Vec<LockView> = join_all(inspected).await.into_iter().flatten().collect();
    conclusions(&views)
}

fn conclusions(views: &[LockView]) -> Vec<String> {
    let held = views.iter().filter(|view| !view.is_free_everywhere());
    held.take(MAX_NAMED).map(LockView::conclusion).collect()
}
