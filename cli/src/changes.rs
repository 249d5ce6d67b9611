//! Changes between two results of `inspect --watch`. Pure.

use serde::Serialize;
use serde_json::Value;

use crate::failure::Failure;

/// The fields whose values differ in every inspection. A difference in these fields is no change.
const VOLATILE_FIELDS: [&str; 2] = ["remaining_ms", "latency_ms"];

/// The results of the last inspection, for a comparison with the next inspection.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    previous: Vec<Value>,
}

impl Changes {
    /// Returns the results that are new or have changed since the last inspection, and records all results for the
    /// next comparison. Differences of the remaining time and of the latency do not count.
    ///
    /// # Errors
    ///
    /// [`Exit::Internal`](crate::exit::Exit::Internal) if a result cannot be serialized as JSON.
    pub(crate) fn update<'a, T: Serialize>(&mut self, now: &'a [T]) -> Result<Vec<&'a T>, Failure> {
        let values: Result<Vec<Value>, _> = now.iter().map(serde_json::to_value).collect();
        let values = values.map_err(|error| Failure::internal("write a result as JSON", error))?;
        let stable: Vec<Value> = values.into_iter().map(without_volatile).collect();
        let changed = now.iter().enumerate().filter(|(at, _)| self.previous.get(*at) != stable.get(*at));
        let changed = changed.map(|(_, result)| result).collect();
        self.previous = stable;
        Ok(changed)
    }
}

/// Removes the volatile fields, and the digits from the texts of nodes. These texts contain volatile numbers, such as
/// the remaining time of a quarantine.
fn without_volatile(value: Value) -> Value {
    match value {
        Value::Array(items) => items.into_iter().map(without_volatile).collect(),
        Value::Object(fields) => fields
            .into_iter()
            .filter(|(name, _)| !VOLATILE_FIELDS.contains(&name.as_str()))
            .map(|(name, value)| match value {
                Value::String(text) if ["abstains", "error"].contains(&&*name) => {
                    let words: String = text.chars().filter(|letter| !letter.is_ascii_digit()).collect();
                    (name, Value::String(words))
                }
                value => (name, without_volatile(value)),
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
    fn new_and_different_results_are_changes() {
        let mut changes = Changes::default();
        let view = |owner: &str| json!({"resource": "job", "owner": owner, "nodes": [{"counter": 1}]});
        let (first, second) = (view("a:1"), view("b:2"));
        assert_eq!(changes.update(&[first.clone(), first.clone()]).unwrap().len(), 2);
        assert!(changes.update(&[first.clone(), first.clone()]).unwrap().is_empty());
        assert_eq!(changes.update(&[first.clone(), second.clone()]).unwrap(), [&second]);
        assert!(changes.update(&[first, second]).unwrap().is_empty());
    }

    #[test]
    fn a_different_counter_is_a_change_and_a_different_time_is_not() {
        let mut changes = Changes::default();
        let view = |time: f64, counter: u64| {
            let abstains = format!("in quarantine for {time} s");
            let node = json!({"counter": counter, "latency_ms": time, "abstains": abstains});
            [json!({"remaining_ms": time, "nodes": [node]})]
        };
        assert_eq!(changes.update(&view(9.5, 1)).unwrap().len(), 1);
        assert!(changes.update(&view(8.25, 1)).unwrap().is_empty());
        assert_eq!(changes.update(&view(8.0, 2)).unwrap().len(), 1);
    }
}
