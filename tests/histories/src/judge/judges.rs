//! The two judges: `porcupine-rs` and `todc-utils`. The judges are independent implementations of the search by
//! Wing, Gong and Lowe for a linearization.

use std::marker::PhantomData;

use anyhow::bail;
use porcupine_rs::CheckResult;
use todc_utils::{Action, History, WGLChecker};

use super::{
    PATIENCE, Verdict,
    rules::{Move, Progress, Rules, Step, advance},
};

#[derive(Clone, Copy, Debug)]
pub(super) enum Judge {
    Porcupine,
    Todc,
}

/// An act or the end of the history, with the times of its beginning and its end.
struct Timed<A> {
    begin: i64,
    end: i64,
    next: Move<A>,
}

impl Judge {
    pub(super) const ALL: [Self; 2] = [Self::Porcupine, Self::Todc];

    pub(super) fn ask<R: Rules>(self, steps: Vec<Step<R::Act>>) -> anyhow::Result<Verdict> {
        let is_legal = match self {
            Self::Porcupine => porcupine::<R>(timed(steps))?,
            Self::Todc => todc::<R>(timed(steps)),
        };
        Ok(if is_legal { Verdict::Legal } else { Verdict::Illegal })
    }
}

/// Adds the end of the history: after all known ends, and before all unknown ends.
fn timed<A>(steps: Vec<Step<A>>) -> Vec<Timed<A>> {
    let time = |position: usize| i64::try_from(position).unwrap_or(i64::MAX - 3);
    let mut all: Vec<Timed<A>> = steps
        .into_iter()
        .map(|Step { begin, end, act }| Timed {
            begin: time(begin),
            end: end.map_or(i64::MAX, time),
            next: Move::Act(act),
        })
        .collect();
    all.push(Timed { begin: i64::MAX - 2, end: i64::MAX - 1, next: Move::End });
    all
}

/// The rules of an object as a model of `porcupine-rs`.
#[derive(Clone, Debug)]
struct Porcupine<R>(PhantomData<R>);

impl<R: Rules> porcupine_rs::Model for Porcupine<R> {
    type State = Progress<R::State>;
    type Op = Move<R::Act>;
    type Metadata = ();

    fn init() -> Self::State {
        Progress::default()
    }

    fn step(state: &Self::State, next: &Self::Op) -> (bool, Self::State) {
        advance::<R>(state, next)
    }
}

fn porcupine<R: Rules>(history: Vec<Timed<R::Act>>) -> anyhow::Result<bool> {
    let operations: Vec<_> = history
        .into_iter()
        .map(|Timed { begin, end, next }| porcupine_rs::Operation::<Porcupine<R>> {
            client_id: None,
            call_time: begin,
            return_time: end,
            op: next,
            metadata: None,
        })
        .collect();
    match porcupine_rs::check_operations_timeout(&operations, PATIENCE) {
        CheckResult::Ok => Ok(true),
        CheckResult::Illegal => Ok(false),
        CheckResult::Unknown => bail!("porcupine-rs has no verdict after {PATIENCE:?}"),
    }
}

/// The rules of an object as a specification of `todc-utils`.
#[derive(Debug)]
struct Todc<R>(PhantomData<R>);

impl<R: Rules> todc_utils::Specification for Todc<R> {
    type State = Progress<R::State>;
    type Operation = Move<R::Act>;

    fn init() -> Self::State {
        Progress::default()
    }

    fn apply(next: &Self::Operation, state: &Self::State) -> (bool, Self::State) {
        advance::<R>(state, next)
    }
}

fn todc<R: Rules>(history: Vec<Timed<R::Act>>) -> bool {
    // Each operation gets a process of its own, because a process of this judge has one operation at a time.
    let mut actions = Vec::with_capacity(2 * history.len());
    for (process, Timed { begin, end, next }) in history.into_iter().enumerate() {
        actions.push((begin, process, Action::Call(next.clone())));
        actions.push((end, process, Action::Response(next)));
    }
    actions.sort_by_key(|(time, ..)| *time);
    let actions = actions.into_iter().map(|(_, process, action)| (process, action)).collect();
    WGLChecker::<Todc<R>>::is_linearizable(History::from_actions(actions))
}
