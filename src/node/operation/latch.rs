//! Latch: adds the arrivals of a client to the record of the node, and returns all recorded arrivals.

use std::{slice, sync::Arc, time::Duration};

use crate::{
    node::{
        operation::{Abstention, Answer, AnswerSize, Arguments, Operate, ScriptReply, wire},
        parameters::QuorumParameters,
    },
    values::{Arrivals, MAX_ARRIVAL_ID_BYTES, Resource},
};

/// The largest number of bytes of an arrival in an answer: its id, its length and the ends of both lines.
const MAX_ARRIVAL_BYTES: usize = MAX_ARRIVAL_ID_BYTES + 8;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Latch {
    pub(crate) latch: Resource,
    /// The number of arrivals that opens the latch.
    pub(crate) count: u32,
    /// Whether the client has received enough arrivals to open the latch, or the answer that the latch is open.
    pub(crate) is_open: bool,
    pub(crate) arrivals: Arrivals,
    /// The minimum time for which the node keeps the latch.
    pub(crate) ttl: Duration,
}

impl Latch {
    /// Whether the node has anything to record: an arrival, or that the latch is open.
    pub(crate) fn has_news(&self) -> bool {
        self.is_open || !self.arrivals.is_empty()
    }
}

impl Operate for Latch {
    fn resources(&self) -> &[Resource] {
        slice::from_ref(&self.latch)
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        let mut arrivals = Vec::new();
        for arrival in &self.arrivals {
            arrivals.extend_from_slice(format!("{}:", arrival.len()).as_bytes());
            arrivals.extend_from_slice(arrival);
        }
        arguments.name("latch", 1).number(self.count).number(self.is_open).bytes(&arrivals).ttl(self.ttl);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        match reply {
            ScriptReply::Tagged(b"open", []) => Some(Answer::Open),
            ScriptReply::Tagged(b"arrived", arrivals) => {
                let arrival = |value: &wire::Value| wire::bytes(value).map(Arc::from);
                arrivals.iter().map(arrival).collect::<Option<_>>().map(Answer::Arrived)
            }
            ScriptReply::Tagged(b"count_mismatch", [count]) => {
                let count = wire::number(count)?;
                Some(Answer::CountMismatch(u32::try_from(count).unwrap_or(u32::MAX)))
            }
            ScriptReply::Tagged(b"abstains", fields) => Abstention::read(fields).map(Answer::Abstains),
            _ => None,
        }
    }

    fn longest_answer(&self) -> AnswerSize {
        let values = self.count as usize;
        AnswerSize { bytes: values * MAX_ARRIVAL_BYTES, values }
    }
}
