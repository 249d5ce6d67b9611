//! The arrivals at a latch.

use std::{collections::BTreeSet, sync::Arc};

/// The arrivals at a latch, each with an id of its own.
pub(crate) type Arrivals = BTreeSet<Arc<[u8]>>;

/// The longest id of an arrival, in bytes. The limit bounds the length of an answer with all arrivals.
pub(crate) const MAX_ARRIVAL_ID_BYTES: usize = 48;
