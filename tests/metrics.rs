//! Tests of the metrics of clients, on in-memory nodes in paused time, and of the documents, dashboard and
//! alerts about them.
#![allow(clippy::disallowed_methods, reason = "time is paused")]

mod figures;

mod metrics {
    mod counted;
    mod pages;
}
