//! Tests on real Redis servers. All of them are one test binary, so that the dependencies are linked once.
//!
//! `REDQUORUM_TEST_SERVERS=containers`, `=processes` or `=redis-clusters` selects the kind of the servers. With
//! `redis-clusters`, each server is a Redis Cluster of one server. `tests/run.sh` lists the tests that cannot run so.

#![allow(clippy::disallowed_methods, reason = "real servers need real time and free ports")]

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
    mod tickets;
    mod transfers;
}
