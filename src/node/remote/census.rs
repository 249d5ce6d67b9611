//! Which servers a client is connected to: each has one vote.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use crate::{
    mutex,
    node::{Incarnation, NodeError},
};

/// The incarnations of the servers that one client is connected to, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct Census {
    incarnations: Arc<Mutex<BTreeMap<Arc<str>, Incarnation>>>,
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
    /// Takes the place with a server in this incarnation.
    ///
    /// # Errors
    ///
    /// [`NodeError::SameServer`] if the client is connected to it by another address: it would have
    /// two votes.
    pub(super) fn take(&self, incarnation: &Incarnation) -> Result<Taken, NodeError> {
        let mut incarnations = mutex::lock(&self.census.incarnations);
        let other =
            incarnations.iter().find(|(address, taken)| **address != self.address && *taken == incarnation);
        if let Some((address, _)) = other {
            return Err(NodeError::SameServer {
                other: Arc::clone(address),
                incarnation: Arc::clone(incarnation),
            });
        }
        incarnations.insert(Arc::clone(&self.address), Arc::clone(incarnation));
        drop(incarnations);
        Ok(Taken { census: self.census.clone(), address: Arc::clone(&self.address) })
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        mutex::lock(&self.census.incarnations).remove(&self.address);
    }
}
