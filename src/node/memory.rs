//! In-memory nodes.
