//! A wrong history, made of a legal history by the exchange of two answers. A judge that calls such a history legal is useless.

use super::operations::{Operation, operations};
use crate::{
    event::{Object, Value},
    history::History,
};

/// Returns the history with the answers of two operations exchanged, of which the first ended before the second began:
/// two grants of a resource or slot, or two appends to a list. Returns `None` if the history has no such operations.
pub(crate) fn with_two_answers_swapped(object: Object, history: &History) -> Option<History> {
    let operations = operations(history);
    let candidates: Vec<_> = operations.iter().filter_map(|o| Candidate::of(object, o)).collect();
    let (first, second) = candidates.iter().enumerate().find_map(|(index, first)| {
        let is_later = |second: &&Candidate<'_>| second.begin > first.end && second.place == first.place;
        candidates[index + 1..].iter().find(is_later).map(|second| (first, second))
    })?;
    let mut events = history.events().to_vec();
    (events[first.end].value, events[second.end].value) = (second.answer.clone(), first.answer.clone());
    Some(History::new(events))
}

struct Candidate<'o> {
    begin: usize,
    end: usize,
    answer: &'o Value,
    /// The slot or the list.
    place: i64,
}

impl<'o> Candidate<'o> {
    fn of(object: Object, operation: &'o Operation) -> Option<Self> {
        let (end, answer) = operation.answer.as_ref()?;
        let place = match object {
            Object::Lists => {
                let append = answer.vector().get(1)?.vector();
                (append.first() == Some(&Value::Keyword("append".into()))).then_some(())?;
                append.get(1)?.number()?
            }
            Object::Leases | Object::Tokens => {
                ["acquire", "acquire-write"].contains(&operation.function.as_str()).then_some(())?;
                answer.vector().first().and_then(Value::number).unwrap_or(0)
            }
        };
        Some(Self { begin: operation.begin, end: *end, answer, place })
    }
}
