//! Tests against real Redis servers: one binary for all of them, so that what they need is linked once.
//!
//! `REDQUORUM_TEST_SERVERS=containers` or `=processes` says what the servers run as.

#![allow(
    clippy::disallowed_methods,
    reason = "real servers live in real time, which these tests measure and wait in"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

mod real {
    mod acceptance;
    mod behaviours;
    mod faults;
    mod fixture;
}
