//! What an error of the redis crate means.

use std::sync::Arc;

use crate::node::fault::Fault;

/// The fault that an error stands for: by the code that the server gave it, else what went wrong below.
pub(crate) fn classify(error: &redis::RedisError) -> Fault {
    let text = || Arc::from(error.to_string());
    match error.code() {
        Some("NOAUTH" | "WRONGPASS") => Fault::NoAuth(text()),
        Some("LOADING") => Fault::Loading,
        Some(_) => Fault::Server(text()),
        None => Fault::Unreachable(text()),
    }
}
