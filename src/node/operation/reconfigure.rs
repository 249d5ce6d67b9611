//! Reconfigure: moves a node to another configuration, closes a node for a move or a replacement, and opens a closed
//! node.

use std::{sync::Arc, time::Duration};

use crate::{
    clock::Instant,
    node::{
        operation::{Abstention, Answer, Arguments, Operate, Registration, ScriptReply, wire},
        parameters::{QuarantineParameters, QuorumParameters},
    },
    values::{Fingerprint, Resource},
};

/// The time by which the minimum token of a new server is higher, and its quarantine longer, than those of a node that
/// has lost its data: more than the difference of the clocks of both servers.
pub(crate) const CLOCK_MARGIN: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reconfigure {
    pub(crate) from: Fingerprint,
    pub(crate) to: Fingerprint,
    /// What the step does with the record of replacements. `None`: nothing.
    pub(crate) record: Option<RecordStep>,
}

/// What a step does with the record of replacements, which is one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordStep {
    /// The node has to have this text. A node with another text changes nothing, and returns its text.
    Requires(Arc<str>),
    /// The step writes this text.
    Writes(Arc<str>),
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

    /// Returns the quarantine of a new server. The clock of the server may be behind by up to a second, and its minimum
    /// token is higher by [`CLOCK_MARGIN`]. The quarantine outlasts this time, so the counter of the first vote is not
    /// below the minimum token by the clock.
    pub(crate) fn quarantine(&self, parameters: &QuorumParameters) -> QuarantineParameters {
        let QuarantineParameters { lasts, renewals_after } = parameters.quarantine;
        QuarantineParameters { lasts: lasts + CLOCK_MARGIN, renewals_after }
    }
}

impl Operate for Reconfigure {
    fn resources(&self) -> &[Resource] {
        &[]
    }

    fn encode(&self, arguments: &mut Arguments<'_>, parameters: &QuorumParameters) {
        let Self { from, to, record } = self;
        let QuarantineParameters { lasts, renewals_after } = self.quarantine(parameters);
        arguments.name("reconfigure", 0).bytes(from.as_str().as_bytes()).bytes(to.as_str().as_bytes());
        arguments.joined(format_args!("{}", to.digest())).number(u8::from(self.keeps_new()));
        arguments.number(u8::from(self.begins_quarantine())).ttl(lasts).ttl(renewals_after);
        let (step, text) = match record {
            None => ("ignores", ""),
            Some(RecordStep::Requires(text)) => ("requires", &**text),
            Some(RecordStep::Writes(text)) => ("writes", &**text),
        };
        arguments.bytes(step.as_bytes()).bytes(text.as_bytes());
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"recorded", [text]) => {
                wire::text(text).map(|text| Answer::Recorded { text: text.into() })
            }
            ScriptReply::Tagged(b"abstains", []) => Some(Answer::Abstains(Abstention::NotRegistered)),
            reply => Registration::read(reply).map(Answer::Registered),
        }
    }

    fn concerns_other_clients(&self, _: Option<Instant>) -> bool {
        true
    }
}
