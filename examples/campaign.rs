//! A simulation campaign: as many random cases as you have time for, and the smallest one that fails.
//!
//! ```text
//! cargo run --release --features sim --example campaign -- --schedules 100000 --seed 1
//! cargo run --release --features sim --example campaign -- --replay '{"schedule":...}' --svg timeline.svg
//! ```

use std::{
    io::{Write, stdout},
    num::NonZero,
    path::PathBuf,
    thread::available_parallelism,
    time::Duration,
};

use clap::Parser;
use redquorum::sim::{Budget, Campaign, Schedules, workload::Case};

/// Runs random cases until one breaks a promise.
#[derive(Parser)]
struct Arguments {
    /// How many cases.
    #[arg(long, default_value_t = 10_000)]
    schedules: u64,
    /// From which all cases follow.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The number of the first case.
    #[arg(long, default_value_t = 0)]
    first: u64,
    /// How many nodes, one of these.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 3, 4, 5, 7])]
    nodes: Vec<usize>,
    /// Break assumptions, too: only what is promised all the same has to hold.
    #[arg(long)]
    beyond: bool,
    /// How many threads (default: one for each core).
    #[arg(long)]
    threads: Option<usize>,
    /// Runs this one case instead, as a failure printed it.
    #[arg(long)]
    replay: Option<Case>,
    /// Where to draw the timeline of a replayed or failing case.
    #[arg(long)]
    svg: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    if let Some(case) = &arguments.replay {
        return replay(case, &arguments);
    }
    let budget = if arguments.beyond { Budget::Beyond } else { Budget::Tolerated };
    let cases = Case::strategy(&Schedules::within_budget(budget).nodes(arguments.nodes.clone()));
    let threads = arguments.threads.unwrap_or_else(|| available_parallelism().map_or(1, NonZero::get));
    let (mut done, mut grants, mut messages, mut simulated) = (0, 0, 0, Duration::ZERO);
    #[expect(clippy::disallowed_methods, reason = "how long it takes on this machine is what is shown")]
    let start = std::time::Instant::now();
    while done < arguments.schedules {
        let portion = (arguments.schedules - done).min(5_000);
        let campaign = Campaign::new(portion).seed(arguments.seed).first(arguments.first + done);
        let summary = match campaign.threads(threads).run(&cases, Case::check) {
            Ok(summary) => summary,
            Err(found) => {
                draw(&found.failure.report, &arguments)?;
                anyhow::bail!("{found}");
            }
        };
        done += summary.runs;
        grants += summary.grants;
        messages += summary.messages;
        simulated += summary.simulated;
        let elapsed = start.elapsed().as_secs_f64();
        let rate = f64::from(u32::try_from(done)?) / elapsed;
        writeln!(
            stdout(),
            "{done} schedules, {rate:.0} per second; {grants} leases, {messages} messages, {} simulated days",
            simulated.as_secs() / 86_400
        )?;
    }
    Ok(writeln!(stdout(), "no promise was broken")?)
}

fn replay(case: &Case, arguments: &Arguments) -> anyhow::Result<()> {
    let report = case.run();
    draw(&report, arguments)?;
    report.check(&case.promises())?;
    Ok(writeln!(stdout(), "{}", report.timeline())?)
}

fn draw(report: &redquorum::sim::Report, arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(path) = &arguments.svg {
        std::fs::write(path, report.timeline().to_svg())?;
    }
    Ok(())
}
