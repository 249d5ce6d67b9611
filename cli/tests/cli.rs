//! The command `redquorum`, run as a process on real Redis servers.
//!
//! `REDQUORUM_TEST_SERVERS=containers` or `=processes` selects the kind of the servers.

#![allow(clippy::disallowed_methods, reason = "real servers and processes need real time")]

mod cli {
    mod bench;
    mod configuration;
    mod doctor;
    mod election;
    mod environment;
    mod exclusion;
    mod exits;
    mod help;
    mod init;
    mod inspect;
    mod latch;
    mod listing;
    mod loss;
    mod minimum_hold;
    mod names;
    mod orphans;
    mod outage;
    mod parent;
    mod permissions;
    mod pty;
    mod reasons;
    mod recipes;
    mod reconfigure;
    mod redquorum;
    mod replace;
    mod rotation;
    mod scratch;
    mod signals;
    mod terminal;
    mod tickets;
    mod tls;
    mod top;
    mod waits;
}
