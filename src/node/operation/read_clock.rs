//! Read clock: the clock of a server, which may be no node yet.

use crate::{
    clock::Instant,
    node::{
        operation::{Answer, Arguments, Operate, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::Resource,
};

/// The request for the time of day of a server, since the epoch. A server of any quorum and of none answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReadClock;

impl Operate for ReadClock {
    fn resources(&self) -> &[Resource] {
        &[]
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        arguments.name("read_clock", 0);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"clock", [time]) => {
                wire::milliseconds(time).map(|time| Answer::Clock { time })
            }
            _ => None,
        }
    }

    fn concerns_other_clients(&self, _: Option<Instant>) -> bool {
        true
    }
}
