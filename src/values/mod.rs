//! Plain values that all layers speak of. They parse, compare and show, and know of no layer
//! above them.

mod arrivals;
mod fence;
mod fencing_token;
mod fingerprint;
mod label;
mod node_error;
mod owner_id;
mod printable;
mod resource;
mod vote;

pub(crate) use self::{
    arrivals::{Arrivals, LONGEST_ARRIVAL},
    label::{LONGEST_LABEL, Label},
    owner_id::{OwnerIds, READERS},
    printable::Printable,
    resource::{LONGEST_RESOURCE, readable},
};
pub use self::{
    fence::{Fence, Fenced},
    fencing_token::{FencingToken, InvalidToken},
    fingerprint::Fingerprint,
    node_error::NodeError,
    owner_id::OwnerId,
    resource::{InvalidResource, Resource},
    vote::{Refusal, Vote, Votes},
};
