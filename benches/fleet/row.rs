//! One row of the table.

use std::fmt;

use super::gauge::Usage;
use crate::Problem;

/// The figures of a measurement. A figure that the measurement does not have is NaN.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) clients: usize,
    /// The number of clients, or of calls, that succeeded and failed.
    pub(crate) succeeded: usize,
    pub(crate) failed: usize,
    /// The number of lost leases; `None` if the scenario has no leases.
    pub(crate) lost: Option<usize>,
    /// The time until the last client or call has ended.
    pub(crate) seconds: f64,
    /// The figures of the busiest node, for each client.
    pub(crate) dials: f64,
    pub(crate) kilobytes_in: f64,
    pub(crate) microseconds: f64,
    pub(crate) server_kilobytes: f64,
    /// The calls of the script at all nodes, for each success.
    pub(crate) calls: f64,
    pub(crate) grants_per_second: f64,
    /// The largest rate of calls in a tenth of a second, divided by the mean.
    pub(crate) peak: f64,
    /// The memory of the process, for each client.
    pub(crate) client_kilobytes: f64,
}

const COLUMNS: [&str; 14] = [
    "",
    "clients",
    "succeeded",
    "failed",
    "leases lost",
    "seconds",
    "dials",
    "kB in",
    "CPU, us",
    "memory, kB",
    "calls",
    "grants/s",
    "peak / mean",
    "client, kB",
];

impl Row {
    pub(crate) fn new(name: &str, clients: usize, (succeeded, failed): (usize, usize)) -> Self {
        Self {
            name: name.to_owned(),
            clients,
            succeeded,
            failed,
            lost: None,
            seconds: f64::NAN,
            dials: f64::NAN,
            kilobytes_in: f64::NAN,
            microseconds: f64::NAN,
            server_kilobytes: f64::NAN,
            calls: f64::NAN,
            grants_per_second: f64::NAN,
            peak: f64::NAN,
            client_kilobytes: f64::NAN,
        }
    }

    /// Adds what the nodes have spent: on all clients together, `times` as much.
    pub(crate) fn with_usage(self, usage: &Usage, times: f64) -> Self {
        let share = times / self.clients as f64;
        Self {
            dials: usage.dials * share,
            kilobytes_in: usage.bytes_in * share / 1e3,
            microseconds: usage.seconds * share * 1e6,
            ..self
        }
    }

    /// Adds the calls of the script for each success.
    pub(crate) fn with_calls(self, usage: &Usage) -> Self {
        Self { calls: usage.calls / self.succeeded as f64, ..self }
    }

    /// # Errors
    ///
    /// If a client has failed, or a lease was lost.
    pub(crate) fn check(&self) -> Result<(), Problem> {
        let lost = self.lost.unwrap_or_default();
        if self.failed == 0 && lost == 0 {
            return Ok(());
        }
        Err(format!("{}: {} failed, {lost} leases lost", self.name, self.failed).into())
    }

    /// Returns the first two lines of the table.
    pub(crate) fn heading() -> String {
        format!("| {} |\n|---|{}", COLUMNS.join(" | "), "--:|".repeat(COLUMNS.len() - 1))
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, clients, succeeded, failed, .. } = self;
        let lost = self.lost.map_or_else(|| "-".to_owned(), |lost| lost.to_string());
        write!(f, "| {name} | {clients} | {succeeded} | {failed} | {lost} |")?;
        let figures = [
            self.seconds,
            self.dials,
            self.kilobytes_in,
            self.microseconds,
            self.server_kilobytes,
            self.calls,
            self.grants_per_second,
            self.peak,
            self.client_kilobytes,
        ];
        for figure in figures {
            match figure {
                figure if !figure.is_finite() => write!(f, " - |")?,
                figure if figure.abs() >= 100.0 => write!(f, " {figure:.0} |")?,
                figure => write!(f, " {figure:.2} |")?,
            }
        }
        Ok(())
    }
}
