//! What can go wrong, each family of operations with an enum of its own.

mod config;

pub use self::config::ConfigError;
