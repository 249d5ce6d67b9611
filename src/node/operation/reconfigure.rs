//! Reconfigure: moves a node to another configuration, closes a node for a move or a replacement, and opens a closed
//! node.

use crate::{
    clock::Instant,
    node::{
        operation::{Abstention, Answer, Arguments, Operate, Registration, ScriptReply},
        parameters::{QuarantineParameters, QuorumParameters},
    },
    values::{Fingerprint, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reconfigure {
    pub(crate) from: Fingerprint,
    pub(crate) to: Fingerprint,
}

impl Reconfigure {
    /// Whether a new node stays new: the step closes the node, or returns a closed node to the configuration that the
    /// node comes from. Then the node has voted for no configuration in between.
    pub(crate) fn keeps_new(&self) -> bool {
        self.to.is_closed() || self.from.is_closed_from(&self.to)
    }

    /// Whether the node begins a quarantine and raises its minimum token, as after a loss of its data: the step opens a
    /// new server that stands in for a replaced one, whose votes the new server does not have.
    pub(crate) fn begins_quarantine(&self) -> bool {
        self.from.is_joining(&self.to)
    }
}

impl Operate for Reconfigure {
    fn resources(&self) -> &[Resource] {
        &[]
    }

    fn encode(&self, arguments: &mut Arguments<'_>, parameters: &QuorumParameters) {
        let Self { from, to } = self;
        let QuarantineParameters { lasts, renewals_after } = parameters.quarantine;
        arguments.name("reconfigure", 0).bytes(from.as_str().as_bytes()).bytes(to.as_str().as_bytes());
        arguments.joined(format_args!("{}", to.digest())).number(u8::from(self.keeps_new()));
        arguments.number(u8::from(self.begins_quarantine())).ttl(lasts).ttl(renewals_after);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"abstains", []) => Some(Answer::Abstains(Abstention::NotRegistered)),
            reply => Registration::read(reply).map(Answer::Registered),
        }
    }

    fn concerns_other_clients(&self, _: Option<Instant>) -> bool {
        true
    }
}
