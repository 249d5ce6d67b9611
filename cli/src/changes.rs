//! What has changed from one look to the next. Pure.

use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;

/// What changes by itself from look to look, and is no change.
const MOVING: [&str; 2] = ["remaining_ms", "latency_ms"];

/// What was seen at the last look.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    seen: Vec<Value>,
}

impl Changes {
    /// Which of these are others than at the last look, or were not there. How much time is left of
    /// something, and how long an answer took, make no difference.
    ///
    /// # Errors
    ///
    /// [`Exit::Internal`](crate::exit::Exit::Internal) if one cannot be told as JSON.
    pub(crate) fn of<'a, T: Serialize>(&mut self, now: &'a [T]) -> Result<Vec<&'a T>, Failure> {
        let told: Result<Vec<Value>, _> = now.iter().map(serde_json::to_value).collect();
        let told = told.map_err(|error| Failure::internal("a result as JSON", error))?;
        let lasting: Vec<Value> = told.into_iter().map(lasting).collect();
        let changed = now.iter().enumerate().filter(|(at, _)| self.seen.get(*at) != lasting.get(*at));
        let changed = changed.map(|(_, one)| one).collect();
        self.seen = lasting;
        Ok(changed)
    }
}

/// Without what moves: the figures, and those in what nodes say, such as how long a quarantine lasts.
fn lasting(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(lasting).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| !MOVING.contains(&name.as_str()))
            .map(|(name, value)| match value {
                Value::String(text) if ["abstains", "error"].contains(&&*name) => {
                    let words: String = text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
                    (name, Value::String(words))
                }
                value => (name, lasting(value)),
            })
            .collect(),
        value => value,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_seen_first_and_what_is_another_is_a_change() {
        let mut changes = Changes::default();
        let view = |owner: &str| json!({"resource": "job", "owner": owner, "nodes": [{"counter": 1}]});
        let (one, other) = (view("a:1"), view("b:2"));
        assert_eq!(changes.of(&[one.clone(), one.clone()]).unwrap().len(), 2);
        assert!(changes.of(&[one.clone(), one.clone()]).unwrap().is_empty());
        assert_eq!(changes.of(&[one.clone(), other.clone()]).unwrap(), [&other]);
        assert!(changes.of(&[one, other]).unwrap().is_empty());
    }

    #[test]
    fn time_that_passes_is_no_change_and_what_nodes_count_is() {
        let mut changes = Changes::default();
        let view = |time: f64, counter: u64| {
            let abstains = format!("in quarantine for {time} s");
            let node = json!({"counter": counter, "latency_ms": time, "abstains": abstains});
            [json!({"remaining_ms": time, "nodes": [node]})]
        };
        assert_eq!(changes.of(&view(9.5, 1)).unwrap().len(), 1);
        assert!(changes.of(&view(8.25, 1)).unwrap().is_empty());
        assert_eq!(changes.of(&view(8.0, 2)).unwrap().len(), 1);
    }
}
