//! Histories of locks on real servers, which checkers of other authors judge. Four worker processes lock and work on a
//! store, while a nemesis stops and kills workers and servers. See the README beside this package.
//!
//! ```text
//! play --> run --> nemesis --signals--> workers --journals--> history --EDN--> judge
//!                  nemesis --signals--> servers
//! ```

#![allow(clippy::disallowed_methods, reason = "processes and real servers need real time")]
#![expect(clippy::print_stdout, reason = "the program prints verdicts")]

mod clock;
mod event;
mod history;
mod judge;
mod kind;
mod nemesis;
mod run;
mod worker;
mod workers;

use std::{
    env,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use clap::{Parser, Subcommand};
use tokio::runtime;

use self::{
    event::Object,
    history::History,
    kind::{Kind, Store},
    run::{Judgement, Plan},
    worker::WorkerArguments,
};

/// Plays and judges histories of locks.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Plays one run for each seed, and judges the histories.
    Play(PlayArguments),
    /// Judges histories in files of EDN.
    Judge {
        #[arg(required = true)]
        files: Vec<PathBuf>,
    },
    /// Works until the standard input is closed. `play` starts the workers.
    #[command(hide = true)]
    Worker(WorkerArguments),
}

#[derive(Debug, clap::Args)]
struct PlayArguments {
    kind: Kind,
    store: Store,
    /// The number of runs.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// The seed of the first run. Each further run has the next seed.
    #[arg(long, default_value_t = 1)]
    first_seed: u64,
    /// The longest time of a run in seconds. A run ends at the first illegal history.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Breaks the locks of the kind `lock`: nodes that have forgotten their votes vote at once. The leases or the
    /// tokens must become illegal.
    #[arg(long)]
    without_restart_guard: bool,
    /// Keeps the histories of all runs, and not only of runs that are not as expected.
    #[arg(long)]
    keep: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    match Arguments::parse().command {
        Command::Play(arguments) => play(&arguments),
        Command::Judge { files } => judge_files(&files),
        Command::Worker(arguments) => worker::work(&arguments).map(|()| ExitCode::SUCCESS),
    }
}

fn play(arguments: &PlayArguments) -> anyhow::Result<ExitCode> {
    let &PlayArguments { kind, store, seeds, first_seed, seconds, without_restart_guard, keep } = arguments;
    if without_restart_guard && kind != Kind::Lock {
        bail!("--without-restart-guard breaks only the kind `lock`, and not `{kind}`");
    }
    let time = Duration::from_secs(seconds);
    let runtime = runtime::Builder::new_multi_thread().enable_all().build()?;
    let (mut as_expected, mut shown) = (0, Vec::new());
    for seed in first_seed..first_seed + seeds {
        let plan = Plan { kind, store, seed, time, without_restart_guard };
        let outcome = runtime.block_on(plan.run()).with_context(|| format!("{kind} {store} seed {seed}"))?;
        println!("{outcome}");
        let found = outcome.faults_found();
        if found.is_empty() {
            as_expected += 1;
        }
        for fault in &found {
            println!("NOT AS EXPECTED: {fault}");
        }
        if keep || !found.is_empty() {
            let folder = kept_histories()?.join(format!("{kind}-{store}-{seed}"));
            outcome.keep(&folder)?;
            println!("the histories are in {}", folder.display());
        }
        let first = Object::ALL.into_iter().filter_map(|object| outcome.shown(object)).min();
        shown.extend(first);
    }
    println!("{kind} {store}: {as_expected} of {seeds} as expected{}", summary(shown));
    Ok(if as_expected == seeds { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Returns the range and the median of the times after which histories were illegal.
fn summary(mut shown: Vec<Duration>) -> String {
    shown.sort();
    match (shown.first(), shown.get(shown.len() / 2), shown.last()) {
        (Some(first), Some(median), Some(last)) => {
            format!(", illegal after {first:.1?} to {last:.1?}, median {median:.1?}")
        }
        _ => String::new(),
    }
}

/// Returns the folder of kept histories, in the target directory.
fn kept_histories() -> anyhow::Result<PathBuf> {
    let program = env::current_exe()?;
    let target = program.ancestors().nth(2).unwrap_or_else(|| Path::new("."));
    Ok(target.join("histories"))
}

fn judge_files(files: &[PathBuf]) -> anyhow::Result<ExitCode> {
    for file in files {
        let history = History::read(file)?;
        let object =
            history.events().first().with_context(|| format!("no event: {}", file.display()))?.object;
        println!("{}: {}", file.display(), Judgement::of(object, history)?);
    }
    Ok(ExitCode::SUCCESS)
}
