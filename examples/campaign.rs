//! A simulation campaign: as many random cases as you have time for, and the smallest one that
//! fails.
//!
//! ```text
//! cargo run --release --features sim --example campaign -- --schedules 100000 --seed 1
//! cargo run --release --features sim --example campaign -- --replay '{"schedule":...}' --svg timeline.svg
//! ```

use std::{
    env,
    io::{Write, stdout},
    num::NonZero,
    path::PathBuf,
    thread::available_parallelism,
    time::Duration,
};

use anyhow::Context;
use redquorum::sim::{Budget, Campaign, Schedules, workload::Case};

/// What to run.
struct Arguments {
    /// How many cases.
    schedules: u64,
    /// The number from which all cases follow.
    seed: u64,
    /// The number of the first case.
    first: u64,
    /// How many nodes, one of these.
    nodes: Vec<usize>,
    /// Breaks assumptions, too: only what is promised all the same has to hold.
    beyond: bool,
    /// How many threads (default: one for each core).
    threads: Option<usize>,
    /// Runs this one case instead, as a failure printed it.
    replay: Option<Case>,
    /// Where to draw the timeline of a replayed or failing case.
    svg: Option<PathBuf>,
}

impl Arguments {
    /// Reads `--name value`; `--beyond` has no value.
    fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Self> {
        let mut arguments = Self {
            schedules: 10_000,
            seed: 0,
            first: 0,
            nodes: vec![1, 2, 3, 4, 5, 7],
            beyond: false,
            threads: None,
            replay: None,
            svg: None,
        };
        while let Some(name) = words.next() {
            if name == "--beyond" {
                arguments.beyond = true;
                continue;
            }
            let value = words.next().with_context(|| format!("{name} needs a value"))?;
            match name.as_str() {
                "--schedules" => arguments.schedules = value.parse()?,
                "--seed" => arguments.seed = value.parse()?,
                "--first" => arguments.first = value.parse()?,
                "--nodes" => arguments.nodes = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                "--threads" => arguments.threads = Some(value.parse()?),
                "--replay" => arguments.replay = Some(value.parse()?),
                "--svg" => arguments.svg = Some(value.into()),
                _ => anyhow::bail!("there is no argument {name}; those that there are stand in this file"),
            }
        }
        Ok(arguments)
    }
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse(env::args().skip(1))?;
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
