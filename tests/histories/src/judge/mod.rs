//! The verdicts of two judges that other authors wrote. Both search for an order of the operations of a history that
//! agrees with real time and with the rules of the object: the history is linearizable, or *legal*.
//!
//! ```text
//! History --operations--> Attempted operations --rules of the object--> Step --+--> porcupine-rs
//!                                               leases, tokens, lists          +--> todc-utils
//! ```

mod judges;
mod leases;
mod lists;
mod operations;
mod rules;
mod swap;
#[cfg(test)]
mod tests;
mod tokens;

use std::time::Duration;

use anyhow::bail;

pub(crate) use self::swap::with_two_answers_swapped;
use self::{judges::Judge, leases::Leases, lists::Lists, operations::operations, tokens::Tokens};
use crate::{event::Object, history::History};

/// The time that the first judge may take. The second judge has no limit, and is asked after the first judge.
const PATIENCE: Duration = Duration::from_secs(60);

/// The common verdict of the judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Legal,
    Illegal,
}

/// Asks both judges.
///
/// # Errors
///
/// If the judges disagree, if the first judge takes too long, or if the history has an unknown operation.
pub(crate) fn judge(object: Object, history: &History) -> anyhow::Result<Verdict> {
    let verdicts = Judge::ALL.map(|one| ask(one, object, history));
    let [porcupine, todc] = verdicts;
    let (porcupine, todc) = (porcupine?, todc?);
    if porcupine != todc {
        bail!("the judges disagree on {}: porcupine-rs {porcupine:?}, todc-utils {todc:?}", object.name());
    }
    Ok(porcupine)
}

/// Asks the faster judge alone.
pub(crate) fn judge_quickly(object: Object, history: &History) -> anyhow::Result<Verdict> {
    ask(Judge::Porcupine, object, history)
}

/// Returns the length of the shortest illegal prefix of an illegal history. Every longer prefix is illegal, too.
pub(crate) fn shortest_illegal_prefix(object: Object, history: &History) -> anyhow::Result<usize> {
    let (mut legal, mut illegal) = (0, history.events().len());
    while legal + 1 < illegal {
        let middle = usize::midpoint(legal, illegal);
        match judge_quickly(object, &history.prefix(middle))? {
            Verdict::Legal => legal = middle,
            Verdict::Illegal => illegal = middle,
        }
    }
    Ok(illegal)
}

fn ask(judge: Judge, object: Object, history: &History) -> anyhow::Result<Verdict> {
    let operations = operations(history);
    match object {
        Object::Leases => judge.ask::<Leases>(rules::steps::<Leases>(&operations)?),
        Object::Tokens => judge.ask::<Tokens>(rules::steps::<Tokens>(&operations)?),
        Object::Lists => judge.ask::<Lists>(rules::steps::<Lists>(&operations)?),
    }
}
