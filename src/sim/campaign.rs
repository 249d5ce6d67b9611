//! Campaigns: runs of many random cases. A failing case is shrunk.

use std::{
    fmt,
    panic::resume_unwind,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use proptest::{
    strategy::{Strategy, ValueTree},
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};

use crate::{
    mutex,
    sim::{
        Failure, Report,
        history::Event,
        rng::{RandomStream, hash_of},
    },
};

/// A run of many cases, drawn from one seed, on several threads. A failing case is shrunk to a
/// smaller case that still fails.
///
/// Case *n* of a seed does not depend on the number of threads or on earlier cases.
///
/// # Examples
///
/// ```
/// use redquorum::sim::{Campaign, Promises, Schedules, Simulation};
///
/// let schedules = Schedules::tolerated().nodes([3]).processes(2..=2).strategy();
/// let summary = Campaign::new(20).seed(4).run(&schedules, |schedule| {
///     let report = Simulation::new(schedule.clone()).run(|process| async move {
///         let quorum = process.quorum().unwrap();
///         drop(quorum.red_lock("r").lock().await);
///     });
///     report.check(&Promises::ALL).map(|()| report)
/// }).unwrap();
/// assert_eq!(summary.runs, 20);
/// ```
#[derive(Clone, Debug)]
#[must_use = "a campaign does nothing until it is run"]
pub struct Campaign {
    cases: u64,
    seed: u64,
    first: u64,
    threads: usize,
    most_shrinks: u32,
}

/// The totals of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Summary {
    /// The number of cases that were run.
    pub runs: u64,
    /// The number of leases that were granted.
    pub grants: u64,
    /// The number of messages that were sent.
    pub messages: u64,
    /// The simulated time of all cases together.
    pub simulated: Duration,
}

/// A case that fails.
#[derive(Debug)]
#[non_exhaustive]
pub struct FailingCase<Case> {
    /// The seed of the campaign.
    pub seed: u64,
    /// The number of the case in the campaign.
    pub number: u64,
    /// The smallest case found that still fails.
    pub case: Case,
    /// The number of smaller cases that were tried.
    pub shrinks: u32,
    /// The failure.
    pub failure: Box<Failure>,
}

impl Campaign {
    /// Creates a campaign of this many cases of seed 0, on one thread.
    pub fn new(cases: u64) -> Self {
        Self { cases, seed: 0, first: 0, threads: 1, most_shrinks: 1000 }
    }

    /// Sets the seed of the cases (default: 0).
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets the number of the first case (default: 0), to continue a campaign or to repeat one
    /// case.
    pub fn first(mut self, first: u64) -> Self {
        self.first = first;
        self
    }

    /// Sets the number of threads that run cases (default: 1, the thread of the caller).
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the largest number of smaller cases to try after a failure (default: 1000).
    pub fn shrinks(mut self, most: u32) -> Self {
        self.most_shrinks = most;
        self
    }

    /// Runs the cases until a case fails, and shrinks that case. If several threads find a failing case,
    /// the case with the smallest number is returned.
    ///
    /// # Errors
    ///
    /// [`FailingCase`], with the smallest case that was found and still fails.
    ///
    /// # Panics
    ///
    /// If `run` panics. A [`Simulation`](super::Simulation) panics inside of a tokio runtime, because a
    /// simulation has a runtime of its own. A panic in a simulated process is no panic of this call,
    /// but a [`Failure`].
    pub fn run<S>(
        &self,
        cases: &S,
        run: impl Fn(&S::Value) -> Result<Report, Box<Failure>> + Sync,
    ) -> Result<Summary, Box<FailingCase<S::Value>>>
    where
        S: Strategy + Sync,
        S::Value: Send,
    {
        let work = Work {
            next: AtomicU64::new(self.first),
            end: self.first.saturating_add(self.cases),
            summary: Mutex::default(),
            found: Mutex::new(None),
        };
        if self.threads <= 1 {
            self.work(cases, &run, &work);
        } else {
            std::thread::scope(|scope| {
                let worker = || self.work(cases, &run, &work);
                let threads: Vec<_> = (0..self.threads).map(|_| scope.spawn(worker)).collect();
                for thread in threads {
                    thread.join().unwrap_or_else(|panic| resume_unwind(panic));
                }
            });
        }
        let found = mutex::lock(&work.found).take();
        match found {
            Some(found) => Err(Box::new(found)),
            None => Ok(*mutex::lock(&work.summary)),
        }
    }

    /// Runs cases on one thread until no case is left, or until a case fails on any thread. A failing
    /// case is shrunk on the thread that found the case.
    fn work<S: Strategy>(
        &self,
        cases: &S,
        run: &impl Fn(&S::Value) -> Result<Report, Box<Failure>>,
        work: &Work<S::Value>,
    ) {
        loop {
            let number = work.next.fetch_add(1, Ordering::Relaxed);
            if number >= work.end {
                return;
            }
            let mut tree = self.draw(cases, number);
            match run(&tree.current()) {
                Ok(report) => mutex::lock(&work.summary).add(&report),
                Err(failure) => {
                    // The other threads stop after their present case.
                    work.next.store(work.end, Ordering::Relaxed);
                    let (case, failure, shrinks) = self.shrink(&mut tree, failure, run);
                    let found = FailingCase { seed: self.seed, number, case, shrinks, failure };
                    let mut first = mutex::lock(&work.found);
                    if first.as_ref().is_none_or(|first| number < first.number) {
                        *first = Some(found);
                    }
                }
            }
        }
    }

    /// Draws case `number`, with the tree of its smaller cases.
    fn draw<S: Strategy>(&self, cases: &S, number: u64) -> S::Tree {
        let mut seed = [0; 32];
        for (part, bytes) in (0..).zip(seed.chunks_exact_mut(8)) {
            bytes.copy_from_slice(&hash_of(self.seed, RandomStream::Case, [number, part]).to_le_bytes());
        }
        let config = Config { failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        match cases.new_tree(&mut runner) {
            Ok(tree) => tree,
            // Only a strategy with a filter rejects draws, and returns an error after many rejections.
            Err(reason) => unreachable!("no case could be drawn: {reason}"),
        }
    }

    /// Searches for a smaller case that still fails. Returns that case, its failure, and the number
    /// of cases that were tried.
    fn shrink<Tree: ValueTree>(
        &self,
        tree: &mut Tree,
        failure: Box<Failure>,
        run: &impl Fn(&Tree::Value) -> Result<Report, Box<Failure>>,
    ) -> (Tree::Value, Box<Failure>, u32) {
        let (mut smallest, mut failure) = (tree.current(), failure);
        let mut shrinks = 0;
        let mut is_smaller = tree.simplify();
        while is_smaller && shrinks < self.most_shrinks {
            shrinks += 1;
            let case = tree.current();
            is_smaller = match run(&case) {
                Err(smaller) => {
                    (smallest, failure) = (case, smaller);
                    tree.simplify()
                }
                Ok(_) => tree.complicate(),
            };
        }
        (smallest, failure, shrinks)
    }
}

/// The state that the threads of a campaign share.
struct Work<Case> {
    /// The number of the next case to run.
    next: AtomicU64,
    /// The number after the last case.
    end: u64,
    summary: Mutex<Summary>,
    /// The failing case with the smallest number.
    found: Mutex<Option<FailingCase<Case>>>,
}

impl Summary {
    fn add(&mut self, report: &Report) {
        let events = report.history.entries().iter().map(|entry| &entry.event);
        self.runs += 1;
        self.grants += events.filter(|event| matches!(event, Event::Granted { .. })).map(|_| 1).sum::<u64>();
        self.messages += report.messages;
        self.simulated += report.lasted;
    }
}

impl<Case: fmt::Display> fmt::Display for FailingCase<Case> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "case {} of seed {} fails; after {} shrinks:", self.number, self.seed, self.shrinks)?;
        writeln!(f, "{}", self.case)?;
        write!(f, "{}", self.failure)
    }
}
