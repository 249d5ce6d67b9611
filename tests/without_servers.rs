//! What the public API says and is, as far as no server is needed to see it.
#![allow(clippy::disallowed_methods, reason = "a refusal that never comes is found by real time")]

mod without_servers {
    mod bad_input;
    mod configuration;
    mod extreme_times;
    mod forked;
    mod layers;
    mod links;
    mod read_write;
    mod tls;
    mod tokens;
}
