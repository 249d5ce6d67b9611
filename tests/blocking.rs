//! Tests of the blocking API on in-memory nodes, called from threads and inside of tokio runtimes.
#![allow(clippy::disallowed_methods, reason = "blocking threads need real time")]

mod blocking {
    mod callers;
    mod deadlines;
    mod elections;
    mod endings;
    mod forked;
    mod holding;
}
