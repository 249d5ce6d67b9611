//! A quorum that misbehaves on purpose: to test critical sections and elections, and this crate
//! itself.
//!
//! A [`Simulation`] runs any number of processes, each with the real code of this crate, over
//! simulated nodes, in virtual time and on one thread. All that goes wrong is a [`Schedule`], which
//! is data; the same schedule always gives the same run. What happened is a
//! [`History`](history::History) in global time, which is held to the promises.

mod budget;
mod campaign;
mod clock;
mod fault;
pub mod history;
mod micros;
mod millis;
#[cfg(test)]
mod mutations;
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
// The programs of the example `campaign`, which search for broken rules here, too.
#[cfg(test)]
#[path = "../../examples/campaign/workload.rs"]
mod workload;
mod world;

pub use self::{
    campaign::{Campaign, FailingCase, Summary},
    fault::{Fault, Memory, PartitionDirection},
    history::promise::{Promise, Promises},
    process::Process,
    report::{End, Failure, Report},
    schedule::{Budget, Direction, Latency, MessageFault, Schedule, TimedFault, Verdict},
    schedules::Schedules,
    simulation::Simulation,
    store::Store,
};
