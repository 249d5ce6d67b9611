//! Traces of random cases, written to files for the proof. `tests/proof/run.sh` checks that each event of a client is a
//! step of the model, and that events are rejected if a client breaks a rule.

use std::{
    env,
    fs::{File, create_dir_all},
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use super::*;
use crate::{mutex::lock, sim::world::keep_traces};

/// The cases of each broken rule.
const CASES_OF_BROKEN_RULE: u64 = 300;

/// A file of traces.
#[derive(Clone)]
struct TraceFile(Arc<Mutex<BufWriter<File>>>);

impl TraceFile {
    fn create(path: &Path) -> Self {
        create_dir_all(path.parent().unwrap()).unwrap();
        Self(Arc::new(Mutex::new(BufWriter::new(File::create(path).unwrap()))))
    }

    /// Runs the cases, and writes the trace of each.
    fn write(&self, campaign: &Campaign, cases: &(impl Strategy<Value = Case> + Sync)) {
        let outcome = campaign.run(cases, |case| {
            keep_traces(true);
            let report = case.run();
            keep_traces(false);
            let text = report.proof_trace.as_deref().unwrap();
            write!(lock(&self.0), "run {case}\n{text}").unwrap();
            Ok(report)
        });
        outcome.unwrap();
        lock(&self.0).flush().unwrap();
    }
}

/// Returns an environment variable of `tests/proof/run.sh`.
fn variable(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// Writes the traces of random cases under tolerated faults.
#[test]
#[ignore = "writes files for tests/proof/run.sh"]
fn traces_are_written_for_the_proof() {
    let folder = PathBuf::from(variable("REDQUORUM_PROOF_FOLDER"));
    let campaign = Campaign::new(variable("REDQUORUM_PROOF_SCHEDULES").parse().unwrap()).seed(1);
    let cases = Case::strategy(&Schedules::tolerated());
    TraceFile::create(&folder.join("schedules.trace")).write(&campaign, &cases);
}

/// Writes the traces of clients that break a rule.
#[test]
#[ignore = "writes files for tests/proof/run.sh"]
fn traces_of_broken_rules_are_written_for_the_proof() {
    let folder = PathBuf::from(variable("REDQUORUM_PROOF_FOLDER")).join("broken-clients");
    let tolerated = || Case::strategy(&Schedules::tolerated());
    broken(&folder, Mutation::HalfIsQuorum, &tolerated());
    broken(&folder, Mutation::QuorumOfAnswering, &tolerated());
    broken(&folder, Mutation::NoWriteBack, &cases::of_late_write_backs(15));
    broken(&folder, Mutation::SkipLastValidityCheck, &cases::of_pauses());
    broken(&folder, Mutation::StartAfterFirstAnswer, &cases::of_slow_answers());
    broken(&folder, Mutation::ReuseLeaseId, &tolerated());
    broken(&folder, Mutation::GiverContinues, &tolerated());
    broken(&folder, Mutation::RedeemAsTicket, &tolerated());
}

fn broken(folder: &Path, rule: Mutation, cases: &(impl Strategy<Value = Case> + Sync)) {
    let _broken = break_rule(Some(rule));
    let campaign = Campaign::new(CASES_OF_BROKEN_RULE).seed(1);
    TraceFile::create(&folder.join(format!("{rule:?}.trace"))).write(&campaign, cases);
}
