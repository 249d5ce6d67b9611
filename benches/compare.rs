//! A comparison of redquorum ("ours") with rslock, with the scripts of redquorum sent without the library (the "floor"),
//! and with the customary commands of a lock ("one line"). The benchmark starts real `redis-server` processes.
//!
//! ```text
//! cargo bench -p redquorum-benches --bench compare -- [--quick] [--json FILE] [--plot FILE]
//!                                                     [--only SCENARIO]...
//! cargo bench -p redquorum-benches --bench compare -- --summary FILE...
//! ```
//!
//! Absolute times depend on the machine and on its state. Therefore only ratios between contestants are meaningful, and
//! only if the contestants took turns in one run. `docs/BENCHMARKS.md` describes the measurements of each scenario, and
//! why the comparison is fair.

#![allow(clippy::disallowed_methods, reason = "real servers need real time and unused ports")]
#![allow(clippy::print_stdout, reason = "the benchmark prints tables")]

mod compare {
    pub(crate) mod contestant;
    pub(crate) mod distance;
    pub(crate) mod floor;
    pub(crate) mod plot;
    pub(crate) mod recording;
    pub(crate) mod sample;
    pub(crate) mod scenarios;
    pub(crate) mod section;
    pub(crate) mod servers;
    pub(crate) mod summary;
    pub(crate) mod verdict;
}

use std::{error::Error, path::PathBuf, time::Instant};

use clap::Parser;

use compare::{
    plot,
    scenarios::{Effort, Scenario},
    section::Section,
    summary,
};

/// An error of a benchmark. Errors are only printed.
pub(crate) type Problem = Box<dyn Error + Send + Sync>;

/// Compares the locks of redquorum with the locks of rslock, with the scripts of redquorum sent without the library,
/// and with the customary commands of a lock.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// Repeats each measurement less often, and measures for a shorter time. All scenarios together then take about a minute and a half.
    #[arg(long)]
    quick: bool,
    /// Writes the figures to this file, as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// The file for the plot.
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_TARGET_TMPDIR"), "/compare.svg"))]
    plot: PathBuf,
    /// Runs only this scenario. May be given more than once.
    #[arg(long, value_name = "SCENARIO")]
    only: Vec<Scenario>,
    /// Measures nothing, and prints the figures in these files, which `--json` wrote, as tables in Markdown.
    #[arg(long, value_name = "FILE", num_args = 1..)]
    summary: Vec<PathBuf>,
    /// The flag that Cargo passes to every benchmark.
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> Result<(), Problem> {
    let arguments = Arguments::parse();
    if !arguments.summary.is_empty() {
        println!("{}", summary::markdown(&arguments.summary)?);
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // The run is a task of a worker thread, like the tasks of an application. Ctrl-C drops the task, which stops
        // all servers.
        let mut work = tokio::spawn(run(arguments));
        tokio::select! {
            outcome = &mut work => outcome?,
            _ = tokio::signal::ctrl_c() => {
                work.abort();
                drop(work.await);
                Err("interrupted".into())
            }
        }
    })
}

async fn run(arguments: Arguments) -> Result<(), Problem> {
    let effort = Effort { is_quick: arguments.quick };
    let begin = Instant::now();
    let mut sections = Vec::new();
    for scenario in Scenario::ALL {
        if arguments.only.is_empty() || arguments.only.contains(&scenario) {
            let section = scenario.run(effort).await?;
            println!("{section}");
            sections.push(section);
        }
    }
    plot::draw(&arguments.plot, &sections)?;
    println!("plotted to {}", arguments.plot.display());
    if let Some(path) = &arguments.json {
        let figures: serde_json::Map<_, _> = sections.iter().map(Section::to_json).collect();
        std::fs::write(path, serde_json::to_string_pretty(&figures)? + "\n")?;
    }
    let missed: Vec<String> = sections.iter().flat_map(Section::missed).collect();
    println!("{} s, targets missed: {}", begin.elapsed().as_secs(), missed.len());
    for verdict in missed {
        println!("  {verdict}");
    }
    Ok(())
}
