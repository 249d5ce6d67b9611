//! The load of a fleet: thousands of clients of one quorum, on real `redis-server` processes that the benchmark starts.
//!
//! ```text
//! cargo bench -p redquorum-benches --bench fleet -- [--clients N] [--nodes N] [--throttled]
//!                                                   [--only SCENARIO]... [--check]
//! ```
//!
//! All clients share one process, and the machine with their servers. Therefore counts, bytes and the processor time of
//! servers are meaningful, and seconds only in comparison with other rows of one table. Each scenario has a process and
//! servers of its own, so that no scenario pays for the clients of an earlier scenario. `docs/BENCHMARKS.md` describes
//! the scenarios and the columns.

#![allow(clippy::disallowed_methods, reason = "real servers need real time")]
#![allow(clippy::print_stdout, reason = "the benchmark prints a table")]

mod fleet {
    pub(crate) mod clients;
    pub(crate) mod file_limit;
    pub(crate) mod gauge;
    pub(crate) mod row;
    pub(crate) mod scenarios;
    pub(crate) mod servers;
    pub(crate) mod throttle;
}

use std::{error::Error, process::Command, time::Duration};

use clap::{Parser, ValueEnum};

use fleet::{file_limit, row::Row, scenarios::Scenario};

/// An error of the benchmark. Errors are only printed.
pub(crate) type Problem = Box<dyn Error + Send + Sync>;

/// Measures thousands of clients of one quorum, and prints a table in Markdown.
#[derive(Clone, Debug, Parser)]
pub(crate) struct Arguments {
    /// The number of clients.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..))]
    clients: u32,
    /// The number of servers.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: u32,
    /// Lets the servers run for only 3 of every 20 ms: an overload that can be repeated.
    #[arg(long)]
    throttled: bool,
    /// The ttl of every lock.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    ttl: Duration,
    /// The time for which scenarios without a fault are measured. The table has their figures for a minute.
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    watch: Duration,
    /// The connect timeout of clients that start at once. [default: the default of the library]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    connect_timeout: Option<Duration>,
    /// Runs only this scenario. May be given more than once.
    #[arg(long, value_name = "SCENARIO")]
    only: Vec<Scenario>,
    /// Ends with an error if a client of redquorum failed, or a lease was lost.
    #[arg(long)]
    check: bool,
    /// Prints only the rows of this scenario. The benchmark starts itself with this option for each scenario.
    #[arg(long, value_name = "SCENARIO", hide = true)]
    rows_of: Option<Scenario>,
    /// The flag that Cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

impl Arguments {
    /// Returns the number of clients as a number of items.
    pub(crate) fn clients(&self) -> usize {
        self.clients as usize
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn main() -> Result<(), Problem> {
    let arguments = Arguments::parse();
    file_limit::ensure(arguments.clients.into(), arguments.nodes.into())?;
    match arguments.rows_of {
        Some(scenario) => print_rows(scenario, &arguments),
        None => print_table(&arguments),
    }
}

/// Runs each scenario as a process of its own, which prints its rows below the heading.
fn print_table(arguments: &Arguments) -> Result<(), Problem> {
    println!("{}", Row::heading());
    let program = std::env::current_exe()?;
    let mut failed = Vec::new();
    for scenario in Scenario::value_variants() {
        if arguments.only.is_empty() || arguments.only.contains(scenario) {
            let mut process = Command::new(&program);
            process.args(std::env::args_os().skip(1)).args(["--rows-of", &scenario.name()]);
            if !process.status()?.success() {
                failed.push(scenario.name());
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(format!("failed: {}", failed.join(", ")).into()) }
}

fn print_rows(scenario: Scenario, arguments: &Arguments) -> Result<(), Problem> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let rows = runtime.block_on(async {
        // The scenario is a task of a worker thread, like the tasks of an application.
        let arguments = arguments.clone();
        tokio::spawn(async move { scenario.run(&arguments).await }).await?
    })?;
    for row in &rows {
        println!("{row}");
    }
    // The tasks of some clients still wait for nodes.
    runtime.shutdown_background();
    if arguments.check && scenario.is_ours() {
        rows.iter().try_for_each(Row::check)?;
    }
    Ok(())
}
