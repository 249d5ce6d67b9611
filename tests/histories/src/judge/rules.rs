//! The rules of an object, as a function from a state and an operation to the next state.

use std::{fmt::Debug, hash::Hash};

use super::operations::Operation;

/// The rules of an object.
pub(super) trait Rules: Clone + Send + Sync + 'static {
    type State: Clone + Debug + Default + Eq + Hash + Send + Sync;
    type Act: Clone + Debug + Send + Sync;

    /// Returns what the operation does to the object. `None` if an operation with an unknown end can be left out,
    /// because no other operation depends on it.
    ///
    /// # Errors
    ///
    /// If the object has no such operation.
    fn act(operation: &Operation, all: &[Operation]) -> anyhow::Result<Option<Self::Act>>;

    /// Returns the state after the act, or `None` if the act is impossible in this state.
    fn apply(state: &Self::State, act: &Self::Act) -> Option<Self::State>;
}

/// An act with the positions of its beginning and end in the history.
#[derive(Clone, Debug)]
pub(super) struct Step<A> {
    pub(super) begin: usize,
    pub(super) end: Option<usize>,
    pub(super) act: A,
}

/// Returns the acts of these operations.
pub(super) fn steps<R: Rules>(operations: &[Operation]) -> anyhow::Result<Vec<Step<R::Act>>> {
    let mut steps = Vec::new();
    for operation in operations {
        let (begin, end) = (operation.begin, operation.answer.as_ref().map(|(end, _)| *end));
        steps.extend(R::act(operation, operations)?.map(|act| Step { begin, end, act }));
    }
    Ok(steps)
}

/// The state of an object, and whether the history has ended.
///
/// A judge has to give each operation a place in the order. An operation that has not happened, although it might have,
/// has its place after the end of the history, where no act is impossible. Before that end, an operation has its place
/// only where it has an effect. So the judges need not try operations without an effect at each place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Progress<S> {
    state: S,
    has_ended: bool,
}

/// An act, or the end of the history.
#[derive(Clone, Debug)]
pub(super) enum Move<A> {
    Act(A),
    End,
}

/// Returns whether the move is possible, and the progress after it.
pub(super) fn advance<R: Rules>(
    progress: &Progress<R::State>,
    next: &Move<R::Act>,
) -> (bool, Progress<R::State>) {
    match next {
        Move::End => (true, Progress { state: R::State::default(), has_ended: true }),
        Move::Act(_) if progress.has_ended => (true, progress.clone()),
        Move::Act(act) => match R::apply(&progress.state, act) {
            Some(state) => (true, Progress { state, has_ended: false }),
            None => (false, progress.clone()),
        },
    }
}
