//! The results of one scenario: a table, and the verdicts below the table.

use std::fmt;

use serde_json::{Map, Value, json};

use super::verdict::Verdict;

/// The results of one scenario.
#[derive(Clone, Debug)]
pub(crate) struct Section {
    pub(crate) key: &'static str,
    title: String,
    /// The names of the columns with their units, as keys of the figures: `median_us`.
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<(String, Vec<f64>)>,
    pub(crate) verdicts: Vec<Verdict>,
}

impl Section {
    pub(crate) fn new<S: Into<String>>(
        key: &'static str,
        title: impl Into<String>,
        columns: impl IntoIterator<Item = S>,
    ) -> Self {
        let columns = columns.into_iter().map(Into::into).collect();
        Self { key, title: title.into(), columns, rows: Vec::new(), verdicts: Vec::new() }
    }

    pub(crate) fn add_row(&mut self, name: impl Into<String>, values: impl IntoIterator<Item = f64>) {
        self.rows.push((name.into(), values.into_iter().collect()));
    }

    pub(crate) fn add_verdict(&mut self, verdict: Verdict) {
        self.verdicts.push(verdict);
    }

    /// Returns the verdicts that miss their target, as text.
    pub(crate) fn missed(&self) -> impl Iterator<Item = String> {
        let missed = self.verdicts.iter().filter(|verdict| verdict.is_met() == Some(false));
        missed.map(|verdict| format!("{}: {verdict}", self.key))
    }

    /// Returns the key and the figures: an object for each row, and the list of verdicts.
    pub(crate) fn to_json(&self) -> (String, Value) {
        let figures = |values: &[f64]| -> Map<String, Value> {
            self.columns.iter().cloned().zip(values.iter().map(|value| json!(value))).collect()
        };
        let mut all: Map<String, Value> =
            self.rows.iter().map(|(name, values)| (name.clone(), Value::Object(figures(values)))).collect();
        let verdicts = self.verdicts.iter().map(Verdict::to_json).collect();
        all.insert("verdicts".to_owned(), Value::Array(verdicts));
        (self.key.to_owned(), Value::Object(all))
    }
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.key, self.title)?;
        write!(f, "  {:10}", "")?;
        for column in &self.columns {
            write!(f, " {:>14}", column.replace('_', " "))?;
        }
        writeln!(f)?;
        for (name, values) in &self.rows {
            write!(f, "  {:10}", name.replace('_', " "))?;
            for value in values {
                match value {
                    value if value.is_nan() => write!(f, " {:>14}", "-")?,
                    value if value.abs() >= 100.0 => write!(f, " {value:>14.0}")?,
                    value => write!(f, " {value:>14.2}")?,
                }
            }
            writeln!(f)?;
        }
        for verdict in &self.verdicts {
            writeln!(f, "  {verdict}")?;
        }
        Ok(())
    }
}
