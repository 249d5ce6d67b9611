//! Reconfigure: what a node becomes in another configuration.

use crate::node::{
    operation::{Abstention, Answer, Reconfigure},
    state::{NodeState, NodeTime},
};

impl NodeState {
    /// Makes this a node of another configuration. Repeating it changes nothing.
    pub(super) fn reconfigure(&mut self, reconfigure: &Reconfigure, now: NodeTime) -> Answer {
        let Reconfigure { from, to } = reconfigure;
        match &mut self.metadata {
            None => Answer::Abstains(Abstention::NotRegistered),
            Some(metadata) if metadata.fingerprint == *from || metadata.fingerprint == *to => {
                metadata.fingerprint = to.clone();
                self.is_new = Some(false);
                self.registered(now)
            }
            Some(metadata) => Answer::WrongQuorum { fingerprint: metadata.fingerprint.clone() },
        }
    }
}
