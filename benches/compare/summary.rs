//! The tables of several runs, for `docs/BENCHMARKS.md`.

use std::{fmt::Write, path::PathBuf};

use serde_json::Value;

use super::{sample::Sample, scenarios::Scenario};
use crate::Problem;

/// Returns the figures of these runs in Markdown: the medians over the runs, and the number of runs that
/// met each target.
pub(crate) fn markdown(files: &[PathBuf]) -> Result<String, Problem> {
    let mut runs: Vec<Value> = Vec::new();
    for file in files {
        runs.push(serde_json::from_str(&std::fs::read_to_string(file)?)?);
    }
    let mut text = String::new();
    for scenario in Scenario::ALL {
        let key = scenario.key();
        let sections: Vec<&Value> = runs.iter().filter_map(|run| run.get(&key)).collect();
        if let [first, ..] = &*sections {
            writeln!(text, "### {key}\n")?;
            rows(&mut text, first, &sections)?;
            verdicts(&mut text, first, &sections)?;
        }
    }
    Ok(text)
}

fn rows(text: &mut String, first: &Value, sections: &[&Value]) -> Result<(), Problem> {
    let rows = first.as_object().ok_or("a section is no object")?;
    let mut is_begun = false;
    for (name, row) in rows.iter().filter(|(name, _)| *name != "verdicts") {
        let columns: Vec<&String> = row.as_object().ok_or("a row is no object")?.keys().collect();
        if !is_begun {
            let names: Vec<String> = columns.iter().map(|column| column.replace('_', " ")).collect();
            writeln!(text, "| | {} |\n|---|{}", names.join(" | "), "--:|".repeat(columns.len()))?;
            is_begun = true;
        }
        write!(text, "| {} |", name.replace('_', " "))?;
        for column in columns {
            let sample = over(sections, |section| section[name][column].as_f64());
            write!(text, " {} |", shown(sample.median()))?;
        }
        writeln!(text)?;
    }
    writeln!(text)?;
    Ok(())
}

fn verdicts(text: &mut String, first: &Value, sections: &[&Value]) -> Result<(), Problem> {
    let verdicts = first["verdicts"].as_array().ok_or("a section has no verdicts")?;
    if verdicts.is_empty() {
        return Ok(());
    }
    writeln!(text, "| | median | least to largest | target | met |\n|---|--:|--:|---|--:|")?;
    for (at, verdict) in verdicts.iter().enumerate() {
        let sample = over(sections, |section| section["verdicts"][at]["value"].as_f64());
        let (median, least, most) = (shown(sample.median()), shown(sample.min()), shown(sample.max()));
        let met = sections.iter().filter(|section| section["verdicts"][at]["is_met"] == true).count();
        let (target, met) = match verdict["target"].as_str() {
            Some(target) => (target, format!("{met} of {}", sections.len())),
            None => ("", String::new()),
        };
        let what = verdict["what"].as_str().unwrap_or_default();
        writeln!(text, "| {what} | {median} | {least}–{most} | {target} | {met} |")?;
    }
    writeln!(text)?;
    Ok(())
}

fn over(sections: &[&Value], value: impl Fn(&Value) -> Option<f64>) -> Sample {
    let mut sample = Sample::default();
    sections.iter().filter_map(|section| value(section)).for_each(|value| sample.push(value));
    sample
}

fn shown(value: f64) -> String {
    match value {
        value if value.is_nan() => "-".to_owned(),
        value if value.abs() >= 100.0 => format!("{value:.0}"),
        value => format!("{value:.2}"),
    }
}
