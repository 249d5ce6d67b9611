//! Who has arrived at a latch.

use std::{collections::BTreeSet, sync::Arc};

/// Who has arrived at a latch, each by an id of its own.
pub(crate) type Arrivals = BTreeSet<Arc<[u8]>>;

/// The longest id, in bytes: so that an answer that names all arrivals is none too long.
pub(crate) const LONGEST_ARRIVAL: usize = 48;
