//! The leases that a lock call has waited for in vain.

use std::{ffi::OsString, os::unix::ffi::OsStrExt};

use futures::future::join_all;
use redquorum::Quorum;

use crate::lock_view::LockView;

/// The largest number of resources that are inspected, at once.
const MOST_INSPECTED: usize = 64;

/// The largest number of holders that are named, of several resources.
const MOST_NAMED: usize = 4;

/// Inspects the resources of a lock: of one, returns the answer of each node; of several, a line for each
/// of the first that are held. Resources that no quorum answers about are left out.
pub(crate) async fn of_lock(quorum: &Quorum, names: &[OsString]) -> Vec<String> {
    let inspected = names.iter().take(MOST_INSPECTED).map(async |name| {
        let name = name.as_bytes();
        Some(LockView::new(name, &quorum.inspect(name).await.ok()?))
    });
    let views: Vec<LockView> = join_all(inspected).await.into_iter().flatten().collect();
    match (names, &*views) {
        ([_], [view]) => view.answers(),
        _ => conclusions(&views),
    }
}

/// Inspects the slots of a semaphore, and returns a line for each of the first that are held.
pub(crate) async fn of_semaphore(quorum: &Quorum, name: &[u8], permits: u32) -> Vec<String> {
    let semaphore = quorum.semaphore(name, permits);
    let inspected = (0..permits as usize).take(MOST_INSPECTED).map(async |slot| {
        let found = quorum.inspect(semaphore.slot_resource(slot).ok()?).await.ok()?;
        Some(LockView::of_slot(name, slot, &found))
    });
    let views: Vec<LockView> = join_all(inspected).await.into_iter().flatten().collect();
    conclusions(&views)
}

fn conclusions(views: &[LockView]) -> Vec<String> {
    let held = views.iter().filter(|view| !view.is_free_everywhere());
    held.take(MOST_NAMED).map(LockView::conclusion).collect()
}
