//! What is measured, on nodes in memory; and the pages about it.
#![allow(clippy::disallowed_methods, reason = "time is paused")]

mod figures;

mod metrics {
    mod counted;
    mod pages;
}
