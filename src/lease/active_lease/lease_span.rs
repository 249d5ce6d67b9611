//! The tracing span of a lease.

use std::sync::Mutex;

use tracing::{Span, field::Empty};

use crate::{
    mutex::lock,
    observer::LeaseEnd,
    values::{FencingToken, LeaseId, Resource},
};

/// The tracing span of a lease, from its grant to its end.
///
/// The span has no parent, because a child would keep the span of the caller open until the lease ends. The span
/// follows from the span of the caller instead.
#[derive(Debug)]
pub(super) struct LeaseSpan(Mutex<Span>);

impl LeaseSpan {
    pub(super) fn begin(resource: &Resource, id: &LeaseId, token: FencingToken) -> Self {
        let span = tracing::info_span!(
            parent: None, "redquorum::lease", %resource, %token, %id, loss = Empty
        );
        span.follows_from(Span::current());
        Self(Mutex::new(span))
    }

    /// Records a loss, runs the closure inside of the span, and closes the span.
    pub(super) fn end(&self, log: impl FnOnce(), end: LeaseEnd) {
        let span = std::mem::replace(&mut *lock(&self.0), Span::none());
        if let LeaseEnd::Lost(reason) = end {
            span.record("loss", tracing::field::display(reason));
        }
        span.in_scope(log);
    }
}
