//! Reconfigure in the pure node: replaces the fingerprint of the node. The new fingerprint may be that of a closed
//! node, which votes for no configuration.

use crate::node::{
    operation::{Abstention, Answer, Reconfigure},
    state::{NodeState, NodeTime},
};

impl NodeState {
    /// Writes the new fingerprint if the node has the expected fingerprint. A repeated request changes nothing. A node
    /// that is closed, and a node that returns to its configuration, stays new if it is new.
    pub(super) fn reconfigure(&mut self, reconfigure: &Reconfigure, now: NodeTime) -> Answer {
        let Reconfigure { from, to } = reconfigure;
        match &mut self.metadata {
            None => Answer::Abstains(Abstention::NotRegistered),
            Some(metadata) if metadata.fingerprint == *from || metadata.fingerprint == *to => {
                metadata.fingerprint = to.clone();
                self.is_new = Some(reconfigure.keeps_new() && self.is_new == Some(true));
                self.registered(now)
            }
            Some(metadata) => Answer::WrongQuorum { fingerprint: metadata.fingerprint.clone() },
        }
    }
}
