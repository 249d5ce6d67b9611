//! A simulation campaign: random programs under random faults, and the smallest case that breaks a
//! promise.
//!
//! A case is a schedule of faults and a program for each process. A failing case is printed as one
//! line of JSON, which `--replay` runs again.
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
use redquorum::sim::{Budget, Campaign, Report, Schedules};

use self::workload::Case;

mod workload;

/// The number of cases between two progress lines.
const CASES_PER_REPORT: u64 = 5_000;

/// The arguments of the command line.
struct Arguments {
    /// The number of cases.
    schedules: u64,
    /// The seed from which all cases follow.
    seed: u64,
    /// The number of the first case.
    first: u64,
    /// The numbers of nodes to draw from.
    nodes: Vec<usize>,
    /// Whether faults may break assumptions. Only promises that do not depend on a broken assumption must
    /// hold.
    beyond: bool,
    /// The number of threads (default: one for each core).
    threads: Option<usize>,
    /// One case in place of random cases, in the format of a printed failure.
    replay: Option<Case>,
    /// The file for the timeline of a replayed or failing case.
    svg: Option<PathBuf>,
}

/// The options, for `--help`.
const HELP: &str = "\
Runs random programs under random faults, until a case breaks a promise.

  --schedules NUMBER  the number of cases (10000)
  --seed NUMBER       the seed from which all cases follow (0)
  --first NUMBER      the number of the first case (0)
  --nodes LIST        the numbers of nodes to draw from (1,2,3,4,5,7)
  --beyond            faults that break assumptions
  --threads NUMBER    the number of threads (one for each core)
  --replay JSON       one case in place of random cases
  --svg FILE          the timeline of a replayed or failing case";

impl Arguments {
    /// Parses arguments of the form `--name value`. `--beyond` has no value. Returns `None` for `--help`.
    fn parse(mut words: impl Iterator<Item = String>) -> anyhow::Result<Option<Self>> {
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
            if name == "--help" || name == "-h" {
                return Ok(None);
            }
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
                _ => anyhow::bail!("unknown argument {name}: --help lists the arguments"),
            }
        }
        Ok(Some(arguments))
    }
}

fn main() -> anyhow::Result<()> {
    let Some(arguments) = Arguments::parse(env::args().skip(1))? else {
        return Ok(writeln!(stdout(), "{HELP}")?);
    };
    match &arguments.replay {
        Some(case) => replay(case, &arguments),
        None => search(&arguments),
    }
}

/// Runs the random cases, prints the progress, and stops at the first case that breaks a promise.
fn search(arguments: &Arguments) -> anyhow::Result<()> {
    let budget = if arguments.beyond { Budget::Beyond } else { Budget::Tolerated };
    let cases = Case::strategy(&Schedules::within_budget(budget).nodes(arguments.nodes.clone()));
    let threads = arguments.threads.unwrap_or_else(|| available_parallelism().map_or(1, NonZero::get));
    let (mut done, mut grants, mut messages, mut simulated) = (0, 0, 0, Duration::ZERO);
    #[expect(clippy::disallowed_methods, reason = "the speed of this machine is printed")]
    let start = std::time::Instant::now();
    while done < arguments.schedules {
        let count = (arguments.schedules - done).min(CASES_PER_REPORT);
        let campaign = Campaign::new(count).seed(arguments.seed).first(arguments.first + done);
        let outcome = campaign.threads(threads).run(&cases, |case| {
            let report = case.run();
            report.check(&case.promises()).map(|()| report)
        });
        let summary = match outcome {
            Ok(summary) => summary,
            Err(failing) => {
                draw(&failing.failure.report, arguments)?;
                anyhow::bail!("{failing}");
            }
        };
        done += summary.runs;
        grants += summary.grants;
        messages += summary.messages;
        simulated += summary.simulated;
        let rate = f64::from(u32::try_from(done)?) / start.elapsed().as_secs_f64();
        writeln!(
            stdout(),
            "{done} schedules, {rate:.0} per second; {grants} leases, {messages} messages, {} simulated days",
            simulated.as_secs() / 86_400
        )?;
    }
    Ok(writeln!(stdout(), "no promise was broken")?)
}

/// Runs one case, checks its promises, and prints its timeline.
fn replay(case: &Case, arguments: &Arguments) -> anyhow::Result<()> {
    let report = case.run();
    draw(&report, arguments)?;
    report.check(&case.promises())?;
    Ok(writeln!(stdout(), "{}", report.timeline())?)
}

/// Writes the timeline of a run to the file of `--svg`, if the option is given.
fn draw(report: &Report, arguments: &Arguments) -> anyhow::Result<()> {
    if let Some(path) = &arguments.svg {
        std::fs::write(path, report.timeline().to_svg())?;
    }
    Ok(())
}
