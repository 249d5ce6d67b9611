//! Redis.

pub(crate) mod classify;
pub(crate) mod script;
#[cfg(test)]
mod tests;
