//! Register: compares the incarnation of the server with the node metadata. If they differ, the node
//! begins a quarantine.

use std::time::Duration;

use crate::{
    node::{
        operation::{Answer, Arguments, Operate, ScriptReply, wire},
        parameters::{Incarnation, QuarantineParameters, QuorumParameters},
    },
    values::{NodeError, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) new_nodes: NewNodes,
    /// The client's time of day, since the epoch. The node refuses a client whose time differs too much,
    /// because minimum tokens and missing counters begin at the node's time.
    pub(crate) time: Duration,
}

/// The treatment of a node without metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewNodes {
    /// Admission as a new node, which votes at once.
    Admit,
    /// A quarantine, because the node may have been flushed.
    Quarantine,
    /// No change, for a read-only client.
    Ignore,
}

/// The result of a registration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The incarnation of the server; `None` if the user may not read it.
    pub(crate) incarnation: Option<Incarnation>,
    /// The rest of the quarantine, if there is one.
    pub(crate) quarantine: Option<Duration>,
}

impl Operate for Register {
    fn resources(&self) -> &[Resource] {
        &[]
    }

    fn encode(&self, arguments: &mut Arguments<'_>, parameters: &QuorumParameters) {
        let QuarantineParameters { lasts, renewals_after } = parameters.quarantine;
        let new_nodes: &[u8] = match self.new_nodes {
            NewNodes::Quarantine => b"quarantine",
            NewNodes::Admit => b"admit",
            NewNodes::Ignore => b"leave",
        };
        arguments
            .name("register", 0)
            .bytes(parameters.fingerprint.as_str().as_bytes())
            .bytes(new_nodes)
            .time(self.time)
            .ttl(lasts)
            .ttl(renewals_after);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        Registration::read(reply).map(Answer::Registered).or_else(|| unfit_server(reply))
    }
}

impl Registration {
    pub(super) fn read(reply: ScriptReply<'_>) -> Option<Self> {
        let ScriptReply::Tagged(b"registered", [incarnation, rest @ ..]) = reply else { return None };
        let quarantine = match rest {
            [] => None,
            [remaining] => Some(wire::milliseconds(remaining)?),
            _ => return None,
        };
        Some(Self { incarnation: wire::incarnation(incarnation), quarantine })
    }
}

/// Reads the reply of a server that cannot be a node of this client.
pub(super) fn unfit_server(reply: ScriptReply<'_>) -> Option<Answer> {
    match reply {
        ScriptReply::Tagged(b"clock_off", [gap, is_node_ahead]) => {
            let (gap, is_node_ahead) = (wire::milliseconds(gap)?, wire::number(is_node_ahead)? == 1);
            Some(Answer::Error(NodeError::ClockOff { gap, is_node_ahead }))
        }
        ScriptReply::Tagged(b"no_run_id", []) => Some(Answer::Error(NodeError::RunIdForbidden)),
        ScriptReply::Tagged(b"no_run_id", [problem]) => {
            let is_missing = wire::text(problem)?.to_ascii_lowercase().contains("unknown");
            let error = if is_missing { NodeError::InfoMissing } else { NodeError::RunIdForbidden };
            Some(Answer::Error(error))
        }
        ScriptReply::Tagged(..) | ScriptReply::Number(_) => None,
    }
}
