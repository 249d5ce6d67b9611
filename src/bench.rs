//! The inside of the crate, as its micro-benchmarks see it, with `--cfg redquorum_bench` alone. It
//! is no part of the API: it changes with any version.

use std::time::Duration;

use crate::{
    algorithm::{
        attempt::{Attempt, AttemptStep, FailureReason, LockVote, Plan, Rules},
        failed_attempt::{Deferral, FailedAttempt},
        node_set::NodeSet,
        queue_node,
        queueing::Queueing,
        tally::{Tally, TallyResult},
    },
    clock::Instant,
    config::{CheckedQuorum, LockOptions, QuorumSettings},
    error::ConfigError,
    node::{
        Lock, Operation, Resources, Tombstone, Unlock,
        redis::script::{self, ScriptName},
    },
    values::{Label, OwnerId, OwnerIds, Refusal, Resource, Vote, Votes},
};

const NOW: Instant = Instant::from_origin(Duration::from_secs(1_000));

/// The pure core of a quorum with the default settings.
#[derive(Debug)]
pub struct Core {
    settings: CheckedQuorum,
    ttl: Duration,
}

impl Core {
    /// Of so many nodes.
    ///
    /// # Errors
    ///
    /// No quorum has so many nodes.
    pub fn new(nodes: usize) -> Result<Self, ConfigError> {
        let settings = QuorumSettings::default();
        Ok(Self { ttl: settings.ttl, settings: settings.check(nodes)? })
    }

    /// Counts votes until they decide: whether they won.
    #[must_use]
    pub fn tally(&self) -> bool {
        let mut tally = Tally::new(self.settings.electorate);
        for node in 0..self.settings.electorate.nodes() {
            tally.vote(node, true);
            if tally.result() != TallyResult::Pending {
                break;
            }
        }
        tally.result() == TallyResult::Won
    }

    /// Decides one attempt that a quorum grants with equal votes: whether it was won.
    #[must_use]
    pub fn attempt(&self) -> bool {
        let rules = Rules {
            electorate: self.settings.electorate,
            validity: self.settings.validity,
            ttl: self.ttl,
            node_timeout: self.settings.node_timeout_for(self.ttl),
            attempt_timeout: self.settings.attempt_timeout,
        };
        let mut attempt = Attempt::new(rules, Plan::First(0), NOW);
        let mut open = NodeSet::EMPTY.iter().collect::<Vec<_>>().into_iter();
        loop {
            match attempt.step(NOW) {
                AttemptStep::Lock { nodes, .. } => open = nodes.iter().collect::<Vec<_>>().into_iter(),
                AttemptStep::Wait(_) => match open.next() {
                    Some(node) => attempt.on_lock(node, LockVote::Granted(7)),
                    None => return false,
                },
                AttemptStep::Enqueue(_) | AttemptStep::WriteBack { .. } | AttemptStep::Abandon => {}
                AttemptStep::Acquired { .. } => return true,
                AttemptStep::Failed(_) => return false,
            }
        }
    }

    /// What a waiter decides for one grant: the queue node puts it off, then wakes it, and it asks
    /// when to try again. Whether that is at once.
    ///
    /// # Errors
    ///
    /// Never: the default pacing is right.
    pub fn wait(&self) -> Result<bool, ConfigError> {
        let pacing = LockOptions::new().check_pacing()?;
        let (electorate, hand_over) = (self.settings.electorate, self.settings.parameters.hand_over);
        let nodes = electorate.nodes();
        let mut queueing = Queueing::new(electorate, pacing, self.ttl, hand_over, (0..nodes).collect(), NOW);
        let owner = Some(OwnerId::from_wire(b"holder"));
        let vote = Vote::Refused(Refusal::Held { owner: owner.clone(), remaining: self.ttl });
        let votes = Votes::new(vec!["node".into(); nodes].into(), vec![vote; nodes]);
        let deferral = Deferral {
            node: 0,
            is_queued: true,
            rank: 0,
            patience: self.ttl,
            holder: Some((owner, self.ttl)),
        };
        queueing.attempt_begins(NOW);
        let failed = FailedAttempt {
            reason: FailureReason::Contended,
            votes,
            hint: 0,
            took: Duration::from_millis(1),
            deferral: Some(deferral),
            refused: None,
        };
        queueing.attempt_failed(&failed, NOW, 0.5);
        queueing.woken(0, NOW);
        Ok(queueing.next_attempt().at == NOW)
    }

    /// Orders the nodes for a resource: the first to be asked.
    #[must_use]
    pub fn queue_node(&self, resource: &str) -> Option<usize> {
        let addresses = ["10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379", "10.0.0.4:6379", "10.0.0.5:6379"];
        queue_node::order(resource.as_bytes(), addresses).first().copied()
    }
}

/// Calls to one node, with the default settings.
#[derive(Debug)]
pub struct Calls {
    parameters: crate::node::QuorumParameters,
    script_name: ScriptName,
    resources: Resources,
    owners: OwnerIds,
}

impl Calls {
    /// To a node of five.
    ///
    /// # Errors
    ///
    /// Never: the settings are the defaults.
    pub fn new() -> Result<Self, ConfigError> {
        let mut parameters = QuorumSettings::default().check(5)?.parameters;
        // As long as a real one: the server's run_id and its replication id.
        parameters.incarnation = Some(format!("{0:040x}/{0:040x}", 7).into());
        let resources = Resources::from([Resource::new("invoice:42")?]);
        let script_name = ScriptName::read(&redis::Value::BulkString([b'7'; 40].into())).unwrap_or_default();
        Ok(Self {
            parameters,
            script_name,
            resources,
            owners: OwnerIds::new(uuid::Uuid::from_u128(7), &Label::default()),
        })
    }

    /// Encodes a call of so many locks as it goes on the wire: its length in bytes.
    #[must_use]
    pub fn lock(&self, operations: usize) -> usize {
        self.encode(operations, |owner| {
            let resources = self.resources.clone();
            Operation::Lock(Lock {
                resources,
                owner,
                ttl: Duration::from_secs(30),
                hint: 0,
                has_turn: false,
                gives_up: false,
            })
        })
    }

    /// Encodes a call of so many unlocks.
    #[must_use]
    pub fn unlock(&self, operations: usize) -> usize {
        self.encode(operations, |owner| {
            let resources = self.resources.clone();
            Operation::Unlock(Unlock {
                resources,
                owner,
                notify: true,
                tombstone: Tombstone::Never,
                is_awaited: false,
            })
        })
    }

    fn encode(&self, operations: usize, operation: impl Fn(OwnerId) -> Operation) -> usize {
        let operations: Vec<Operation> = (0..operations).map(|_| operation(self.owners.fresh())).collect();
        script::command(&self.script_name, &self.parameters, &operations).get_packed_command().len()
    }
}
