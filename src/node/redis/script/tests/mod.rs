//! Tests of the script on a real server.

#![allow(clippy::disallowed_methods, reason = "a server needs real time to start")]

mod agreement;
mod decoding;
mod examples;
mod readers;
mod refusals;
mod server;
mod shapes;
