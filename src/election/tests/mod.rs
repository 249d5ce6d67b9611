//! Elections on in-memory nodes, in virtual time.
