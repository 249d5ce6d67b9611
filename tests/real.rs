//! Tests against real Redis servers: one binary for all of them, so that what they need is linked
//! once.
//!
//! `REDQUORUM_TEST_SERVERS=containers` or `=processes` says what the servers run as.

#![allow(clippy::disallowed_methods, reason = "real servers need real time, and ports that nobody has")]

mod figures;

mod real {
    mod acceptance;
    mod behaviours;
    mod blocking;
    mod closures;
    mod election;
    mod fair;
    mod faults;
    mod fixture;
    mod forked;
    mod groups;
    mod guard;
    mod inspection;
    mod latches;
    mod metrics;
    mod programs;
    mod readers;
    mod redisson;
    mod reentrancy;
    mod rotation;
    mod semaphores;
    mod servers;
    mod shutdown;
    mod transfers;
}
