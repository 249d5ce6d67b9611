//! Plain values that all layers above use, with parsing, comparison and display. The values use no other layer, except
//! for `mutation`.

mod arrivals;
mod closed_reason;
mod fence;
mod fencing_token;
mod fingerprint;
mod label;
mod lease_id;
mod node_error;
mod node_reply;
mod printable;
mod resource;
mod shown_value;
mod ticket;

#[cfg(any(feature = "settings", feature = "tls"))]
pub(crate) use self::shown_value::shown_path;
pub(crate) use self::{
    arrivals::{Arrivals, MAX_ARRIVAL_ID_BYTES},
    fingerprint::{Digest, Fingerprint},
    label::{Label, MAX_LABEL_BYTES},
    lease_id::{LeaseIds, READERS},
    printable::Printable,
    resource::readable,
    shown_value::{may_be_url, shown_name, shown_value},
    ticket::TicketSecret,
};
pub use self::{
    closed_reason::ClosedReason,
    fence::{Fence, StaleToken},
    fencing_token::{FencingToken, InvalidToken},
    lease_id::LeaseId,
    node_error::NodeError,
    node_reply::{NodeReplies, NodeReply, Refusal},
    resource::{InvalidResource, Resource},
    ticket::{InvalidTicket, Ticket},
};
