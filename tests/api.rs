//! Tests of the public API: whole programs, rules about types and names, blocks of the documents, and mistakes that
//! compile. No test of this binary needs a server.
//!
//! ```text
//! programs/     whole programs            in_memory.rs runs them here, real/programs.rs on servers
//! statements    types and futures         the compiler checks them
//! parity        names of methods          by rustdoc's JSON, which surface.rs reads
//! markdown      blocks of the documents   compiled and run as programs
//! traps         mistakes that compile
//! ```

#![allow(clippy::disallowed_methods, reason = "the programs use tokio's clock, as programs of users do")]

mod api {
    mod cargo;
    mod in_memory;
    mod markdown;
    mod parity;
    #[allow(dead_code, reason = "the tests on real servers call the other functions")]
    mod programs;
    mod statements;
    mod surface;
    mod traps;
}
