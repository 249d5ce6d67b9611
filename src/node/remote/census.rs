//! Which servers a client is connected to: each has one vote.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::{
    mutex,
    node::{Fault, Run},
};

/// The runs that the nodes of one client are in, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    runs: Arc<Mutex<BTreeMap<Arc<str>, Run>>>,
}

/// One node's place in it.
#[derive(Clone, Debug)]
pub(super) struct Seat {
    pub(super) census: Census,
    pub(super) address: Arc<str>,
}

/// A place that is taken for as long as the connection lasts: a server may move to another address.
#[derive(Debug)]
pub(super) struct Taken {
    census: Census,
    address: Arc<str>,
}

impl Seat {
    /// Takes the place with a server in this run.
    ///
    /// # Errors
    ///
    /// [`Fault::SameServer`] if the client is connected to it by another address: it would have two
    /// votes.
    pub(super) fn take(&self, run: &Run) -> Result<Taken, Fault> {
        let mut runs = mutex::lock(&self.census.runs);
        let other = runs.iter().find(|(address, taken)| **address != self.address && *taken == run);
        if let Some((address, _)) = other {
            return Err(Fault::SameServer { other: Arc::clone(address), run: Arc::clone(run) });
        }
        runs.insert(Arc::clone(&self.address), Arc::clone(run));
        drop(runs);
        Ok(Taken { census: self.census.clone(), address: Arc::clone(&self.address) })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        mutex::lock(&self.census.runs).remove(&self.address);
    }
}
