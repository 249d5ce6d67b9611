//! Tests of the programs of this crate, as processes, on real Redis servers.
//!
//! `REDQUORUM_TEST_SERVERS=containers` or `=processes` selects the kind of the servers.

#![allow(clippy::disallowed_methods, reason = "real servers and processes need real time")]

mod recipes {
    mod job_queue;
    mod process;
    mod programs;
    mod service;
}
