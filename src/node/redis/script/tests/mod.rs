//! The script on a real server.

#[cfg(any())]
mod agreement;
mod decoding;
mod refusals;
mod server;
mod shapes;
