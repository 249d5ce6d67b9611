//! What a leader says of itself.

use std::{fmt, sync::Arc, time::Duration};

use crate::values::OwnerId;

/// The longest value of a leader, in bytes: every node keeps it, and every observer is sent it.
pub(crate) const LONGEST_VALUE: usize = 64 * 1024;

/// What a leader says of itself, as nodes keep it beside its lock.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Proclamation {
    /// Whose lock it stands beside.
    pub(crate) owner: OwnerId,
    /// The lock's fencing token.
    pub(crate) term: u64,
    /// Grows with every value of one leader: what arrives late does not replace what was said after
    /// it.
    pub(crate) number: u64,
    pub(crate) value: Arc<[u8]>,
    /// When it was elected, by its own time of day since the epoch.
    pub(crate) since: Duration,
}

impl fmt::Debug for Proclamation {
    /// Without the value, which may be long.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, term, number, value, .. } = self;
        write!(f, "{owner} in term {term}, number {number}, {} bytes", value.len())
    }
}
