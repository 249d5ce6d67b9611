//! A simulated quorum with faults, for tests of critical sections and elections, and of this crate
//! itself.
//!
//! A [`Simulation`] runs any number of processes, each with the real code of this crate, over
//! simulated nodes, in virtual time and on one thread. A [`Schedule`] contains all faults of a run
//! as data. In one build, the same schedule and the same programs always give the same run.
//!
//! A [`History`](history::History) records the leases, and the accesses to stores, with the virtual
//! time since the start of the run. This *global time* is the same for all processes and nodes, and
//! no program can read it. [`Report::check`] checks the history against a set of [`Promises`].

mod budget;
mod campaign;
mod clock;
mod fault;
pub mod history;
mod micros;
mod millis;
#[cfg(test)]
mod mutations;
mod node_load;
mod process;
pub mod register;
mod report;
mod rng;
#[cfg(test)]
mod scenarios;
mod schedule;
mod schedules;
mod simulation;
mod store;
#[cfg(test)]
mod tests;
pub mod timeline;
// The programs of the example `campaign`. The tests in `mutations`, each of which breaks one rule of the crate, run
// the same programs.
#[cfg(test)]
#[path = "../../examples/campaign/workload.rs"]
mod workload;
mod world;

pub use self::{
    campaign::{Campaign, FailingCase, Summary},
    fault::{Fault, Memory, PartitionDirection},
    history::promise::{Promise, Promises},
    node_load::NodeLoad,
    process::Process,
    report::{End, Failure, Report},
    schedule::{Budget, Direction, Latency, MessageFault, ProcessingTime, Schedule, TimedFault, Verdict},
    schedules::Schedules,
    simulation::Simulation,
    store::Store,
};
