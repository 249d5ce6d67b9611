//! Init: admits a server as a node of a new quorum, unless the server belongs to a quorum or may have forgotten
//! a quorum.

use std::time::Duration;

use crate::{
    clock::Instant,
    node::{
        operation::{
            Answer, Arguments, Operate, ScriptReply,
            register::{Registration, unfit_server},
            wire,
        },
        parameters::QuorumParameters,
    },
    values::Resource,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Init {
    /// Whether the node only answers as for an `init`, and changes nothing.
    pub(crate) is_dry_run: bool,
    /// The client's time of day, since the epoch. The node refuses a client whose time differs too much,
    /// because missing counters begin at the node's time.
    pub(crate) time: Duration,
}

impl Operate for Init {
    fn resources(&self) -> &[Resource] {
        &[]
    }

    fn encode(&self, arguments: &mut Arguments<'_>, parameters: &QuorumParameters) {
        arguments.name("init", 0).bytes(parameters.fingerprint.as_str().as_bytes());
        arguments.number(u8::from(!self.is_dry_run)).time(self.time);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"already_registered", [fingerprint]) => {
                wire::fingerprint(fingerprint).map(|fingerprint| Answer::AlreadyRegistered { fingerprint })
            }
            reply => Registration::read(reply).map(Answer::Registered).or_else(|| unfit_server(reply)),
        }
    }

    fn concerns_other_clients(&self, _: Option<Instant>) -> bool {
        true
    }
}
