//! A quorum that misbehaves on purpose.

pub mod history;
