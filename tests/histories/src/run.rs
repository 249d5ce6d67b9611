//! One run: servers, a store, workers and faults, and then the verdicts about the histories.

use std::{
    fmt,
    fs::{create_dir_all, write},
    path::Path,
    time::{Duration, Instant},
};

use anyhow::{Context, bail};
use redquorum::admin;
use redquorum_tests::Cluster;
use tokio::{task::spawn_blocking, time::sleep};

use crate::{
    clock::{Nanoseconds, nanoseconds, now},
    event::{Event, Object, Stage},
    history::History,
    judge::{Verdict, judge, judge_quickly, shortest_illegal_prefix, with_two_answers_swapped},
    kind::{Kind, Store},
    nemesis::{FORGETTING, Nemesis, TOLERATED},
    worker::WorkerArguments,
    workers::Workers,
};

/// The number of nodes.
const NODES: usize = 5;

/// The time between two judgements during a run.
const JUDGE_EVERY: Duration = Duration::from_millis(500);

/// The age of the youngest events that are judged during a run. The events of the last moments may not be complete,
/// because they are in pipes.
const COMPLETE_AFTER: Duration = Duration::from_millis(500);

/// A legal history with fewer completed operations says little.
const FEWEST_OPERATIONS: usize = 20;

/// The plan of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) kind: Kind,
    pub(crate) store: Store,
    pub(crate) seed: u64,
    /// The longest time with faults. The first illegal history ends a run earlier.
    pub(crate) time: Duration,
    /// Breaks the locks: nodes that have forgotten their votes vote at once.
    pub(crate) without_restart_guard: bool,
}

/// The judgement about the history of one object.
#[derive(Debug)]
pub(crate) struct Judgement {
    object: Object,
    history: History,
    verdict: Verdict,
    /// The time from the first event to the end of the shortest illegal prefix, and the operations of this prefix.
    shown: Option<(Duration, usize)>,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Outcome {
    plan: Plan,
    judgements: Vec<Judgement>,
    faults: String,
    judging: Duration,
}

impl Plan {
    /// Returns the verdict that the histories of an object must have. `None` if both verdicts are possible.
    fn expected(&self, object: Object) -> Option<Verdict> {
        match (object, self.store, self.without_restart_guard) {
            (.., true) => None,
            (Object::Lists, Store::Plain, false) => Some(Verdict::Illegal),
            (_, _, false) => Some(Verdict::Legal),
        }
    }

    /// Returns whether the run can end, because an object has an illegal history.
    fn is_over(&self, written: &[Event]) -> anyhow::Result<bool> {
        let cut = now() - nanoseconds(COMPLETE_AFTER);
        for object in Object::ALL {
            // An illegal list shows nothing about locks without the restart guard.
            if !(object == Object::Lists && self.without_restart_guard)
                && judge_quickly(object, &History::assemble(written, object, cut))? == Verdict::Illegal
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs the plan.
    pub(crate) async fn run(self) -> anyhow::Result<Outcome> {
        let servers = Cluster::processes(NODES).await;
        let store = Cluster::processes(1).await;
        let arguments = WorkerArguments {
            kind: self.kind,
            store: self.store,
            process: 0,
            seed: self.seed.wrapping_mul(1000),
            store_url: store.server(0).url(),
            nodes: servers.urls(),
            without_restart_guard: self.without_restart_guard,
        };
        admin::init(&arguments.builder()).await.context("cannot initialise the quorum")?;
        let mut workers = Workers::start(arguments)?;
        let faults = if self.without_restart_guard { FORGETTING } else { TOLERATED };
        let mut nemesis = Nemesis::new(&servers, faults, self.seed);
        let (begin, mut judged) = (Instant::now(), Instant::now());
        while begin.elapsed() < self.time {
            sleep(nemesis.pause()).await;
            nemesis.act(&mut workers).await?;
            if judged.elapsed() > JUDGE_EVERY {
                let written = workers.written().events();
                if spawn_blocking(move || self.is_over(&written)).await?? {
                    break;
                }
                judged = Instant::now();
            }
        }
        nemesis.end(&workers).await?;
        workers.end().await?;

        let begin = Instant::now();
        let written = workers.written().events();
        let judgements = Object::ALL
            .map(|object| Judgement::of(object, History::assemble(&written, object, Nanoseconds::MAX)));
        let judgements = judgements.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Outcome { plan: self, judgements, faults: nemesis.to_string(), judging: begin.elapsed() })
    }
}

impl Judgement {
    /// Judges a history. A legal history with two answers swapped must be illegal.
    pub(crate) fn of(object: Object, history: History) -> anyhow::Result<Self> {
        let verdict = judge(object, &history)?;
        let shown = match verdict {
            Verdict::Illegal => Some(shown(object, &history)?),
            Verdict::Legal => {
                if let Some(swapped) = with_two_answers_swapped(object, &history)
                    && judge(object, &swapped)? == Verdict::Legal
                {
                    bail!("the judges call {} with two answers swapped legal", object.name());
                }
                None
            }
        };
        Ok(Self { object, history, verdict, shown })
    }
}

/// Returns when the history could have been known to be illegal, and asks both judges about that prefix, and about the
/// prefix that is shorter by one event.
fn shown(object: Object, history: &History) -> anyhow::Result<(Duration, usize)> {
    let length = shortest_illegal_prefix(object, history)?;
    let illegal = judge(object, &history.prefix(length))?;
    let legal = judge(object, &history.prefix(length - 1))?;
    if (legal, illegal) != (Verdict::Legal, Verdict::Illegal) {
        bail!("{} events of {}: {illegal:?}; one less: {legal:?}", length, object.name());
    }
    let events = &history.events()[..length];
    let nanoseconds = events[length - 1].time - events[0].time;
    Ok((Duration::from_nanos(nanoseconds.unsigned_abs()), count(events, Stage::Ok)))
}

fn count(events: &[Event], stage: Stage) -> usize {
    events.iter().filter(|event| event.stage == stage).count()
}

impl Outcome {
    /// Returns the reasons why the run is not as expected.
    pub(crate) fn faults_found(&self) -> Vec<String> {
        let mut found = Vec::new();
        let is_broken =
            [Object::Leases, Object::Tokens].into_iter().any(|object| self.shown(object).is_some());
        if self.plan.without_restart_guard && !is_broken {
            found.push("leases and tokens must not both be Legal".to_owned());
        }
        for Judgement { object, history, verdict, .. } in &self.judgements {
            let completed = count(history.events(), Stage::Ok);
            if self.plan.expected(*object).is_some_and(|expected| expected != *verdict) {
                found.push(format!("{} must not be {verdict:?}", object.name()));
            }
            if *verdict == Verdict::Legal
                && completed < FEWEST_OPERATIONS
                && self.judgements.iter().all(|judgement| judgement.shown.is_none())
            {
                found.push(format!("{} has only {completed} completed operations", object.name()));
            }
        }
        found
    }

    /// Returns the time after which an object was shown to be illegal.
    pub(crate) fn shown(&self, object: Object) -> Option<Duration> {
        self.judgements.iter().find(|judgement| judgement.object == object)?.shown.map(|(time, _)| time)
    }

    /// Writes each history to a file of EDN.
    pub(crate) fn keep(&self, folder: &Path) -> anyhow::Result<()> {
        create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for Judgement { object, history, .. } in &self.judgements {
            let path = folder.join(format!("{}.edn", object.name()));
            write(&path, history.to_edn()).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { object, history, verdict, shown } = self;
        let [happened, failed, unknown] =
            [Stage::Ok, Stage::Fail, Stage::Info].map(|stage| count(history.events(), stage));
        write!(f, "{} {verdict:?} ({happened} ok, {failed} failed, {unknown} unknown", object.name())?;
        if let Some((time, operations)) = shown {
            write!(f, "; shown after {:.1} s by {operations}", time.as_secs_f64())?;
        }
        f.write_str(")")
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { kind, store, seed, .. } = self.plan;
        write!(f, "{kind} {store} seed {seed}: ")?;
        for judgement in &self.judgements {
            write!(f, "{judgement}, ")?;
        }
        write!(f, "{}, judged in {:.1} s", self.faults, self.judging.as_secs_f64())
    }
}
