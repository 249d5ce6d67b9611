//! `redquorum sim`: the protocol in simulations.

use std::{
    fmt,
    num::NonZero,
    path::{Path, PathBuf},
    thread::available_parallelism,
    time::Duration,
};

use clap::{Args, builder::RangedU64ValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use proptest::strategy::Strategy;
use redquorum::sim::{Budget, Campaign, Found, Schedules, workload::Case};
use serde::Serialize;
use tokio::sync::oneshot;

use crate::{app::App, exit::Exit, failure::Failure, stopwatch, waiting};

/// How many cases each thread runs until the progress is shown.
const PORTION: u64 = 50;

const A_DAY: f64 = 86_400.0;

/// Test the protocol in simulations
///
/// Runs clients with the real code of locks over simulated nodes, in virtual time, while messages are lost, delayed and
/// repeated, nodes crash and hang, and clocks are wrong, all drawn at random from a seed. No server is needed. If a promise
/// is broken, the smallest case that shows it is printed, and it ends with 82.
#[derive(Args, Debug)]
pub(crate) struct Sim {
    /// How many cases
    #[arg(long, default_value_t = 10_000)]
    cases: u64,
    /// The number from which all cases are drawn: the same seed gives the same cases
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many nodes; each case takes one of these numbers
    #[arg(id = "simulated", long = "nodes", value_name = "N", value_delimiter = ',', default_values_t = [1, 2, 3, 4, 5, 7],
          value_parser = RangedU64ValueParser::<usize>::new().range(1..=64))]
    nodes: Vec<usize>,
    /// Break the assumptions, too: then only the promises that do not rest on them have to hold
    #[arg(long)]
    beyond: bool,
    /// How many threads [default: one for each core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZero<usize>>,
    /// Where to write the case that breaks a promise
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    /// Run the one case that stands in this file, as --save wrote it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["cases", "seed", "simulated", "beyond", "threads", "save"])]
    replay: Option<PathBuf>,
}

/// What came of a campaign.
#[derive(Debug, Serialize)]
struct Outcome {
    seed: u64,
    /// How many cases kept all promises.
    cases: u64,
    leases: u64,
    messages: u64,
    simulated_days: f64,
    seconds: f64,
    broken: Option<Broken>,
}

/// What came of one case that was run again.
#[derive(Debug, Serialize)]
struct Replayed {
    broken: Option<Broken>,
    /// Who held what when.
    timeline: String,
}

/// A case that breaks a promise.
#[derive(Debug, Serialize)]
struct Broken {
    /// Which case of the campaign it was; `None` of one that was run again.
    number: Option<u64>,
    case: Case,
    /// What was broken, and how it came to it.
    report: String,
}

impl Sim {
    /// Runs the cases.
    ///
    /// # Errors
    ///
    /// A file that cannot be read or written, or that holds no case. A broken promise is a result.
    pub(crate) async fn perform(self, app: &App) -> Result<Exit, Failure> {
        if let Some(path) = &self.replay {
            let case = read(path)?;
            let replayed = apart(move || replay(case)).await?;
            app.output.print(&replayed)?;
            return Ok(exit(replayed.broken.as_ref()));
        }
        let save = self.save.clone();
        let bar = self.bar(!app.general.json);
        let outcome = apart(move || {
            let cases = self.strategy();
            self.campaign(&cases, &bar)
        })
        .await?;
        app.output.print(&outcome)?;
        if let (Some(path), Some(broken)) = (&save, &outcome.broken) {
            std::fs::write(path, format!("{}\n", broken.case))
                .map_err(|error| Failure::file(path, &error))?;
            app.messages.notice(&format!("the case is in {}: --replay runs it again", path.display()));
        }
        Ok(exit(outcome.broken.as_ref()))
    }

    fn strategy(&self) -> impl Strategy<Value = Case> + Sync + use<> {
        let budget = if self.beyond { Budget::Beyond } else { Budget::Tolerated };
        Case::strategy(&Schedules::within_budget(budget).nodes(self.nodes.clone()))
    }

    fn campaign(&self, cases: &(impl Strategy<Value = Case> + Sync), bar: &ProgressBar) -> Outcome {
        let threads = self.threads.or_else(|| available_parallelism().ok()).map_or(1, NonZero::get);
        let portion = PORTION.saturating_mul(u64::try_from(threads).unwrap_or(1));
        let start = stopwatch::now();
        let mut outcome = Outcome {
            seed: self.seed,
            cases: 0,
            leases: 0,
            messages: 0,
            simulated_days: 0.0,
            seconds: 0.0,
            broken: None,
        };
        while outcome.cases < self.cases && outcome.broken.is_none() {
            let campaign = Campaign::new(portion.min(self.cases - outcome.cases)).seed(self.seed);
            match campaign.first(outcome.cases).threads(threads).run(cases, Case::check) {
                Ok(summary) => {
                    outcome.cases += summary.runs;
                    outcome.leases += summary.grants;
                    outcome.messages += summary.messages;
                    outcome.simulated_days += summary.simulated.as_secs_f64() / A_DAY;
                }
                Err(found) => outcome.broken = Some(Broken::from(*found)),
            }
            bar.set_position(outcome.cases);
        }
        outcome.seconds = start.elapsed().as_secs_f64();
        bar.finish_and_clear();
        outcome
    }

    fn bar(&self, is_shown: bool) -> ProgressBar {
        if !is_shown || !waiting::is_terminal() {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{bar:40} {pos}/{len} cases, {per_sec}, {eta} left");
        ProgressBar::new(self.cases).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }
}

/// Runs something on a thread of its own: a simulation has a runtime of its own, which cannot be inside of another.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Failure> {
    let (done, doing) = oneshot::channel();
    std::thread::Builder::new()
        .name("simulation".to_owned())
        .spawn(move || done.send(work()).map_err(drop))
        .map_err(|error| Failure::internal("a thread for simulations", error))?;
    doing.await.map_err(|_| Failure::new(Exit::Internal, "the simulation panicked, with the message above"))
}

fn exit(broken: Option<&Broken>) -> Exit {
    if broken.is_some() { Exit::PromiseBroken } else { Exit::Success }
}

fn read(path: &Path) -> Result<Case, Failure> {
    let text = std::fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
    let wrong = |error| Failure::usage(format!("{} holds no case of a simulation: {error}", path.display()));
    text.trim().parse().map_err(wrong)
}

fn replay(case: Case) -> Replayed {
    let report = case.run();
    let timeline = report.timeline().to_string();
    let broken = report.check(&case.promises()).err().map(|failure| Broken {
        number: None,
        case,
        report: failure.to_string(),
    });
    Replayed { broken, timeline }
}

impl From<Found<Case>> for Broken {
    fn from(found: Found<Case>) -> Self {
        Self { number: Some(found.number), report: found.to_string(), case: found.case }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, cases, leases, messages, simulated_days, .. } = self;
        let took = Duration::try_from_secs_f64(self.seconds).unwrap_or_default();
        writeln!(
            f,
            "{cases} cases of seed {seed} in {took:.1?}: {leases} leases, {messages} messages, {simulated_days:.1} \
             simulated days"
        )?;
        match &self.broken {
            Some(broken) => write!(f, "a promise was broken: {}", broken.report),
            None => f.write_str("no promise was broken"),
        }
    }
}

impl fmt::Display for Replayed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.broken {
            Some(broken) => write!(f, "a promise was broken: {}", broken.report),
            None => write!(f, "{}\nno promise was broken", self.timeline),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use proptest::strategy::Just;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        sim: Sim,
    }

    fn sim(words: &[&str]) -> Sim {
        Line::try_parse_from(std::iter::once(&"sim").chain(words)).unwrap().sim
    }

    /// A quorum of no nodes, which no client can be built of: the simplest case that fails.
    fn hopeless() -> Case {
        let case = r#"{"schedule":{"seed":1,"nodes":0,"clients":1,"latency":{"shortest":100,"longest":100}},"programs":[[]]}"#;
        case.parse().unwrap()
    }

    #[test]
    fn a_campaign_counts_what_it_runs_and_breaks_nothing() {
        let sim = sim(&["--cases", "7", "--threads", "2", "--nodes", "3"]);
        let outcome = sim.campaign(&sim.strategy(), &ProgressBar::hidden());
        assert_eq!((outcome.cases, outcome.broken.is_none()), (7, true));
        assert!(outcome.messages > 0 && outcome.simulated_days > 0.0);
        assert_eq!(exit(outcome.broken.as_ref()), Exit::Success);
    }

    #[test]
    fn a_case_that_fails_ends_a_campaign_and_is_shown_with_its_number() {
        let outcome = sim(&["--threads", "1"]).campaign(&Just(hopeless()), &ProgressBar::hidden());
        assert_eq!(outcome.cases, 0);
        assert_eq!(exit(outcome.broken.as_ref()), Exit::PromiseBroken);
        let shown = outcome.to_string();
        assert!(
            shown.contains("case 0 of seed 0 fails") && shown.contains(&hopeless().to_string()),
            "{shown}"
        );
    }

    #[test]
    fn a_number_of_nodes_that_no_quorum_has_is_refused() {
        for nodes in ["0", "65", "3,0"] {
            assert!(Line::try_parse_from(["sim", "--nodes", nodes]).is_err(), "{nodes}");
        }
    }
}
