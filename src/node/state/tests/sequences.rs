//! Random sequences of operations, written to files for the proof. `tests/proof/run.sh` compares this node with the
//! executable node of the proof: the answers and the data after each operation.
//!
//! A line is `TIME INCARNATION OPERATION|ANSWER|KEY|READERS|COUNTER|METADATA|QUARANTINE|TOMBSTONES`.
//! `tests/proof/compare.ml` reads the operations, and writes the same lines.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    fs::{File, create_dir_all},
    io::{BufWriter, Write as _},
    path::PathBuf,
};

use super::*;
use crate::{
    mutation::{Mutation, break_rule},
    node::{
        Lock, NewNodes, QuorumParameters, Register, Renew, Resources, RestartGuard, Tombstone, Transfer,
        Unlock, WriteBack, operation::samples::resources,
    },
};

/// The rules of `broken.rs` that concern these operations.
const RULES: [Mutation; 24] = [
    Mutation::WriteBackUnconditionally,
    Mutation::WriteBackWithoutOwner,
    Mutation::WriteBackAboveToken,
    Mutation::WriteBackBelowMinimum,
    Mutation::HealOnlyBelowToken,
    Mutation::VerifyAboveToken,
    Mutation::VerifyWithoutCounter,
    Mutation::CountInQuarantine,
    Mutation::CountWithoutMetadata,
    Mutation::HoldsAsIncrements,
    Mutation::VoteBelowMinimum,
    Mutation::ShortenTtl,
    Mutation::UnlockWithoutOwner,
    Mutation::RestExtends,
    Mutation::RedeemWithoutCounter,
    Mutation::FirstReaderRepeats,
    Mutation::WriteBackOfNoReader,
    Mutation::WriteBackBelowPhase,
    Mutation::ReadersWriteNothingBack,
    Mutation::RenewAsWriter,
    Mutation::OneEndForReaders,
    Mutation::UnshareAnyKey,
    Mutation::UnshareForAll,
    Mutation::StalePhase,
];

/// The number of steps of each file of a broken rule.
const STEPS_OF_BROKEN_RULE: u64 = 60_000;
/// The number of steps after which a sequence ends, and the next begins with an empty node.
const STEPS_OF_SEQUENCE: u64 = 40;
/// The number of leases. Those above [`WRITERS`] only read.
const LEASES: u64 = 6;
const WRITERS: u64 = 3;
/// The first kind of the steps in [`Sequence::step`] that are write-backs.
const WRITE_BACK: u64 = 7;

/// A generator of pseudorandom numbers (xorshift), so that each run writes the same sequences.
struct Random(u64);

impl Random {
    /// Returns a number below `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn one_of(&mut self, values: &[u64]) -> u64 {
        let index = self.below(values.len() as u64);
        values.iter().copied().nth(usize::try_from(index).unwrap()).unwrap()
    }

    fn is_one_in(&mut self, number: u64) -> bool {
        self.below(number) == 0
    }
}

/// A sequence: the node with its time, and the client that sends the operations.
struct Sequence<'a> {
    random: &'a mut Random,
    state: NodeState,
    milliseconds: u64,
    incarnation: u64,
    /// The incarnation in which the connection of the client has registered.
    registered_in: u64,
    /// The largest vote of the sequence.
    largest_vote: u64,
}

impl<'a> Sequence<'a> {
    fn new(random: &'a mut Random) -> Self {
        let milliseconds = START / 1000 + random.one_of(&[0, 0, 1, 999, 4321]);
        let state = NodeState::new("0");
        Self { random, state, milliseconds, incarnation: 0, registered_in: 0, largest_vote: START }
    }

    fn now(&self) -> NodeTime {
        NodeTime::from_epoch(self.milliseconds)
    }

    fn pass_time(&mut self) {
        let random = &mut self.random;
        self.milliseconds += match random.below(8) {
            0 => random.below(70_000),
            1 => 61_000,
            2 | 3 => random.below(3000),
            4 => 3000,
            _ => random.below(3),
        };
        if random.is_one_in(40) {
            self.milliseconds -= random.below(5000);
        }
        if random.is_one_in(200) {
            self.milliseconds += 5_400_000;
        }
    }

    fn ask(&mut self, operation: &Operation) -> Answer {
        let parameters = QuorumParameters {
            guard: RestartGuard::PerConnection,
            incarnation: Some(self.registered_in.to_string().into()),
            ..parameters()
        };
        self.state.apply(&parameters, operation, self.now()).answer
    }

    /// Returns a lease that holds the key while the counter is below the minimum token. Lets the quarantine pass if the
    /// key lasts longer than the quarantine.
    ///
    /// The node refuses a write-back of this lease only because of the minimum token. Random steps seldom come here: a
    /// renewal has to extend the key in quarantine, and its lease has to write back before another lease locks.
    fn lease_below_minimum(&mut self) -> Option<u64> {
        let end =
            self.state.quarantine(self.now()).map(|quarantine| quarantine.until.since_epoch().as_millis());
        let milliseconds = end.map_or(self.milliseconds, |end| u64::try_from(end).unwrap() + 1);
        let now = NodeTime::from_epoch(milliseconds);
        let counter = self.state.counter(&resource("r"), now)?.value;
        let is_below = counter < self.state.metadata()?.minimum_token;
        let holds = |number: &u64| {
            self.state.look_up(&resources_of(*number), &lease_id(&number.to_string()), now).is_all_ours
        };
        let number = (1..=LEASES).find(holds).filter(|_| is_below)?;
        self.milliseconds = milliseconds;
        Some(number)
    }

    /// Executes a random step. Returns the line of the step; `None` if the executable node does not have the step.
    fn step(&mut self) -> Option<String> {
        self.pass_time();
        let below_minimum = if self.random.is_one_in(4) { self.lease_below_minimum() } else { None };
        let random = 1 + self.random.below(LEASES);
        let number = below_minimum.unwrap_or(random);
        let lease_id = lease_id(&number.to_string());
        let resources = resources_of(number);
        let ttl = self.random.one_of(&[500, 1000, 10_000, 60_000]);
        let stored = self.state.counter(&resource("r"), self.now()).map(|counter| counter.value);
        let minimum = self.state.metadata().map_or(self.largest_vote, |metadata| metadata.minimum_token);
        let token = match self.random.below(6) {
            _ if below_minimum.is_some() => minimum - 1,
            0 => self.largest_vote,
            1 => self.largest_vote.saturating_sub(self.random.below(3)),
            2 => self.largest_vote + self.random.below(3),
            3 => stored.unwrap_or(self.largest_vote),
            4 => minimum.saturating_sub(self.random.below(2)),
            _ => self.largest_vote + self.random.below(2_000_000),
        };
        let mut line = format!("{} {} ", self.milliseconds, self.registered_in);
        let kind = if below_minimum.is_some() { WRITE_BACK } else { self.random.below(30) };
        let answer = match kind {
            0..=6 => {
                let hint = self.random.one_of(&[0, token, token + 4_000_000_000]);
                let ignores_queue = !self.random.is_one_in(3);
                // A woken writer that waits leaves a writer mark, which the executable node does not have.
                let will_not_wait = ignores_queue || self.random.is_one_in(2);
                let duration = Duration::from_millis(ttl);
                write!(line, "lock {number} {ttl} {hint}").unwrap();
                let lock = Lock { resources, lease_id, ttl: duration, hint, ignores_queue, will_not_wait };
                self.lock(lock)?
            }
            WRITE_BACK..=9 => {
                write!(line, "write_back {number} {token}").unwrap();
                self.ask(&Operation::WriteBack(WriteBack { resources, lease_id, token }))
            }
            10..=13 => {
                let holds = self.random.below(3);
                write!(line, "renew {number} {holds} {ttl} {token}").unwrap();
                let (holds, ttl) = (u32::try_from(holds).unwrap(), Duration::from_millis(ttl));
                let renew =
                    Renew { resources, lease_id, holds, ttl, extends: true, token, may_have_waiters: true };
                self.ask(&Operation::Renew(renew))
            }
            14..=17 => {
                let tombstone = [Tombstone::Never, Tombstone::IfMissing, Tombstone::Always]
                    [usize::try_from(self.random.below(3)).unwrap()];
                let rest = self.random.is_one_in(3).then(|| 1 + self.random.below(20_000));
                let rest_or_none = rest.map_or_else(|| "-".to_owned(), |rest| rest.to_string());
                write!(line, "unlock {number} {} {rest_or_none}", tombstone as u8).unwrap();
                let rest = rest.map(Duration::from_millis);
                let notify = self.random.is_one_in(2);
                self.ask(&Operation::Unlock(Unlock {
                    resources,
                    lease_id,
                    notify,
                    tombstone,
                    has_waiters: false,
                    rest,
                }))
            }
            18..=20 => {
                self.registered_in = self.incarnation;
                line = format!("{} {} register", self.milliseconds, self.registered_in);
                let (new_nodes, time) = (NewNodes::Quarantine, self.now().since_epoch());
                self.ask(&Operation::Register(Register { new_nodes, time }))
            }
            21 => {
                self.incarnation += 1;
                self.state.restart(&self.incarnation.to_string());
                write!(line, "restart {}", self.incarnation).unwrap();
                Answer::Withdrawn
            }
            22 => {
                self.state.flush();
                line.push_str("flush");
                Answer::Withdrawn
            }
            23 => {
                self.state.sweep(self.now());
                line.push_str("sweep");
                Answer::Withdrawn
            }
            24..=27 => {
                let from = 1 + self.random.below(LEASES);
                let hint = self.random.one_of(&[0, token + 1]);
                let proof = (!self.random.is_one_in(3)).then_some(token);
                let proof_or_none = proof.map_or_else(|| "-".to_owned(), |proof| proof.to_string());
                write!(line, "transfer {number} {ttl} {hint} {from} {proof_or_none}").unwrap();
                let (from, ttl) = (self::lease_id(&from.to_string()), Duration::from_millis(ttl));
                let lock = Lock { resources, lease_id, ttl, hint, ignores_queue: true, will_not_wait: false };
                self.ask(&Operation::Transfer(Transfer { lock, from, proof }))
            }
            _ => {
                self.registered_in = self.incarnation;
                return None;
            }
        };
        write!(line, "|{}|{}", text_of(&answer), self.data()).unwrap();
        if let Answer::Granted { vote } = answer {
            self.largest_vote = self.largest_vote.max(vote);
        }
        Some(line)
    }

    /// Executes a lock. Returns `None` for a deferral, because the executable node has no wait queue. Asserts that a
    /// deferral changes neither key nor counter.
    fn lock(&mut self, lock: Lock) -> Option<Answer> {
        let before = self.data();
        let answer = self.ask(&Operation::Lock(lock));
        let yields = matches!(answer, Answer::Queued(_));
        assert!(!yields || self.data() == before, "a deferral changed the data: {before} -> {}", self.data());
        (!yields).then_some(answer)
    }

    /// Returns the key, the readers (phase, epoch and ends), the counter, the metadata, the quarantine, and the end of each
    /// lease's tombstone.
    fn data(&self) -> String {
        let (state, now, name) = (&self.state, self.now(), resource("r"));
        let end = |time: NodeTime| time.since_epoch().as_millis();
        let holder = |id: &LeaseId| if id.is_of_readers() { "readers".to_owned() } else { id.to_string() };
        let held = state
            .held(&name, now)
            .map(|held| format!("{} {} {}", holder(&held.lease_id), held.holds, end(held.expires_at)));
        let reader = |ends: &BTreeMap<LeaseId, NodeTime>, number: u64| {
            ends.get(&lease_id(&number.to_string()))
                .map_or_else(|| "-".to_owned(), |time| end(*time).to_string())
        };
        let readers = state.readers(&name, now).map(|readers| {
            let ends: Vec<_> = (WRITERS + 1..=LEASES).map(|number| reader(&readers.ends, number)).collect();
            format!("{} {} {}", readers.phase, readers.epoch, ends.join(" "))
        });
        let counter =
            state.counter(&name, now).map(|counter| format!("{} {}", counter.value, end(counter.expires_at)));
        let metadata =
            state.metadata().map(|metadata| format!("{} {}", metadata.incarnation, metadata.minimum_token));
        let quarantine = state
            .quarantine(now)
            .map(|quarantine| format!("{} {}", end(quarantine.until), end(quarantine.renewals_from)));
        let tombstone = |number: u64| state.tombstone(&name, &lease_id(&number.to_string()), now);
        let tombstones = (1..=LEASES).map(|number| tombstone(number).map(|time| end(time).to_string()));
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let tombstones: Vec<_> = tombstones.map(or_none).collect();
        let [held, readers, counter, metadata, quarantine] =
            [held, readers, counter, metadata, quarantine].map(or_none);
        format!("{held}|{readers}|{counter}|{metadata}|{quarantine}|{}", tombstones.join(" "))
    }
}

fn resources_of(number: u64) -> Resources {
    resources(if number > WRITERS { "*r" } else { "r" })
}

fn text_of(answer: &Answer) -> String {
    match answer {
        Answer::Granted { vote } => format!("granted {vote}"),
        Answer::Held(_) => "held".to_owned(),
        Answer::Tombstone => "tombstone".to_owned(),
        Answer::Abstains(_) => "abstains".to_owned(),
        Answer::WrittenBack => "written_back".to_owned(),
        Answer::NotWrittenBack { counter } => format!("not_written_back {counter}"),
        Answer::Renewed { proves } => format!("renewed {}", u8::from(*proves)),
        Answer::RenewedInQuarantine(_) => "renewed_in_quarantine".to_owned(),
        Answer::Unlocked { deleted } => format!("unlocked {deleted}"),
        Answer::Registered(_) => "registered".to_owned(),
        Answer::Withdrawn => "none".to_owned(),
        other => format!("{other:?}"),
    }
}

/// Writes at least this many steps of a node that breaks this rule.
fn write_sequences(path: PathBuf, steps: u64, rule: Option<Mutation>) {
    let _broken = break_rule(rule);
    let mut file = BufWriter::new(File::create(path).unwrap());
    let mut random = Random(88_172_645_463_325_252);
    let mut written = 0;
    while written < steps {
        writeln!(file, "new").unwrap();
        let mut sequence = Sequence::new(&mut random);
        for _ in 0..STEPS_OF_SEQUENCE {
            if let Some(line) = sequence.step() {
                writeln!(file, "{line}").unwrap();
                written += 1;
            }
        }
    }
    file.flush().unwrap();
}

#[test]
#[ignore = "writes files for tests/proof/run.sh, which sets the folder and the number of steps"]
fn sequences_are_written_for_the_proof() {
    let folder = PathBuf::from(std::env::var_os("REDQUORUM_PROOF_FOLDER").expect("REDQUORUM_PROOF_FOLDER"));
    let steps = std::env::var("REDQUORUM_PROOF_STEPS").expect("REDQUORUM_PROOF_STEPS").parse().unwrap();
    write_sequences(folder.join("whole.steps"), steps, None);
    let broken = folder.join("broken");
    create_dir_all(&broken).unwrap();
    for rule in RULES {
        write_sequences(broken.join(format!("{rule:?}.steps")), STEPS_OF_BROKEN_RULE, Some(rule));
    }
}
