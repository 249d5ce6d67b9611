//! `src/node/state` alone, with the parts of the library that it uses.
#![allow(dead_code, unused_imports, reason = "the rest of the library uses these")]

mod clock {
    pub(crate) use self::instant::Instant;

    mod instant;
}
mod mutation;
mod node {
    pub use self::parameters::RestartGuard;
    pub(crate) use self::{
        operation::*,
        parameters::{Incarnation, QuarantineParameters, QuorumParameters},
    };

    #[cfg(test)]
    mod examples;
    mod names;
    mod operation;
    mod parameters;
    mod state;
    mod ttl;
}
mod values;
