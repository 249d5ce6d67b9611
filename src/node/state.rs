//! The whole behaviour of a node.
