//! The blocking API on nodes in memory: from threads, and from inside of runtimes.
#![allow(clippy::disallowed_methods, reason = "threads that block are tested by real time")]

mod blocking {
    mod callers;
    mod elections;
    mod endings;
    mod forked;
    mod holding;
    mod patience;
}
