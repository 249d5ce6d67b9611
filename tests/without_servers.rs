//! Tests of the public API and of the repository that need no server: errors of settings, extreme times, forked
//! processes, names and read/write locks in virtual time, tokens in JSON, layers of the source, links of the documents,
//! and the tests that the documents name.
#![allow(clippy::disallowed_methods, reason = "some tests measure real time")]

mod without_servers {
    mod bad_input;
    mod configuration;
    mod extreme_times;
    mod forked;
    mod layers;
    mod links;
    mod names;
    mod other_suites;
    mod read_write;
    mod suites;
    mod tls;
    mod tokens;
}
