//! `src/algorithm` alone, with the parts of the library that it uses.
#![allow(dead_code, unused_imports, reason = "the rest of the library uses these")]

mod algorithm;
mod clock {
    pub(crate) use self::instant::Instant;

    mod instant;
}
mod mutation;
mod values;
