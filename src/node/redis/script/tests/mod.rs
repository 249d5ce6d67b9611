//! The script on a real server.

mod agreement;
mod decoding;
mod refusals;
mod server;
mod shapes;
