//! Init in the pure node: a new node joins a new quorum.

use crate::node::{
    operation::{Answer, Init},
    parameters::QuorumParameters,
    state::{NodeState, NodeTime, guard::check_clock},
};

impl NodeState {
    /// Admits this node to a new quorum if the node is new, because a new node has given no vote.
    ///
    /// The node is new if both conditions hold:
    ///
    /// * The node has no metadata, or is in the quarantine that began with its first metadata. The metadata may be of
    ///   another configuration, but no closed fingerprint.
    /// * No renewal has shown that a quorum existed before.
    pub(super) fn init(
        &mut self,
        parameters: &QuorumParameters,
        init: &Init,
        now: NodeTime,
    ) -> Result<Answer, Answer> {
        let is_closed = self.metadata.as_ref().is_some_and(|metadata| metadata.fingerprint.is_closed());
        let is_in_first_quarantine = self.is_new == Some(true)
            && !is_closed
            && self.has_metadata_of(&self.incarnation)
            && self.quarantine(now).is_some();
        if self.is_new == Some(false) || (self.metadata.is_some() && !is_in_first_quarantine) {
            let fingerprint =
                self.metadata.as_ref().map_or(&parameters.fingerprint, |metadata| &metadata.fingerprint);
            return Err(Answer::AlreadyRegistered { fingerprint: fingerprint.clone() });
        }
        check_clock(init.time, now)?;
        if !init.is_dry_run {
            self.write_metadata(&parameters.fingerprint, 0, false);
            self.quarantine = None;
        }
        Ok(self.registered(now))
    }
}
