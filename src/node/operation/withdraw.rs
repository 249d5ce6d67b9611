//! Withdraw: removes a waiter from the queue of a resource.

use std::slice;

use crate::{
    node::{
        operation::{Answer, Arguments, Operate, ScriptReply},
        parameters::QuorumParameters,
    },
    values::{LeaseId, Resource},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Withdraw {
    pub(crate) resource: Resource,
    pub(crate) waiter: LeaseId,
}

impl Operate for Withdraw {
    fn resources(&self) -> &[Resource] {
        slice::from_ref(&self.resource)
    }

    fn encode(&self, arguments: &mut Arguments<'_>, _: &QuorumParameters) {
        arguments.name("withdraw", 1).lease_id(&self.waiter);
    }

    fn decode(&self, reply: ScriptReply<'_>) -> Option<Answer> {
        matches!(reply, ScriptReply::Tagged(b"withdrawn", [])).then_some(Answer::Withdrawn)
    }

    fn must_deliver(&self) -> bool {
        true
    }
}
