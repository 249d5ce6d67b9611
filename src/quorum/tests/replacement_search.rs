//! A search of all orders of the steps of several calls that replace nodes. The records follow the rules of
//! [`replacement_record`](crate::quorum::replacement_record), and the steps are those of
//! [`replacing`](crate::quorum::replacing).
//!
//! ```text
//!  servers   X, Y, O   the quorum        R, S, U   new servers        T   a new server for X
//! ```
//!
//! A call that is not continued stands for a call that was killed. A request whose answer is lost is executed later, or
//! never. A call says that a node is gone only if the node is dead. A server is open or not: the quarantine of an opened
//! server only delays its votes.

use std::{
    collections::HashSet,
    hash::{BuildHasher, RandomState},
};

use crate::{
    mutation::{self, Mutation, break_rule},
    quorum::replacement_record::{Pair, ReplacementRecord},
};

const X: usize = 0;
const Y: usize = 1;
const O: usize = 2;
const R: usize = 3;
const S: usize = 4;
const T: usize = 5;
const U: usize = 6;
const NAMES: [&str; 7] = ["X", "Y", "O", "R", "S", "T", "U"];

/// The largest number of states of one search.
const MAX_STATES: usize = 3_000_000;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Fingerprint {
    /// The server has no metadata.
    None,
    /// The server belongs to the quorum.
    Open,
    /// The server is closed in place of a node, by the call with this id.
    Joining(usize, u8),
    /// The node was replaced by this server.
    Replaced(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Server {
    fingerprint: Fingerprint,
    record: ReplacementRecord,
    is_alive: bool,
}

/// A change of one server, which compares what it changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Request {
    Record {
        from: ReplacementRecord,
        to: ReplacementRecord,
    },
    Fingerprint {
        from: Fingerprint,
        to: Fingerprint,
        requires: Option<ReplacementRecord>,
        writes: Option<ReplacementRecord>,
    },
}

/// The next step of a call. The numbers are indices of the others, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    Check,
    Close,
    Begin(usize),
    BeginAtOld,
    Confirm(usize),
    EndOld,
    Retired(usize),
    Open,
    Done(usize),
    WithdrawAtOld,
    Withdraw(usize),
    Abandon,
    AbandonAtOld,
    AbandonAt(usize),
    Over,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OldNode {
    Unknown,
    Gone,
    Open,
    Retired,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Call {
    id: u8,
    old: usize,
    new: usize,
    others: [usize; 2],
    step: Step,
    of_old: OldNode,
    /// Whether the new server was opened by an earlier call.
    is_opened: bool,
    /// Whether the old node is retired, and the new server is closed already or dead.
    is_continued: bool,
    /// Whether the new server is dead, so that the call only completes the records.
    is_unfit: bool,
    /// Whether a node has recorded `retired` for this call.
    is_recorded: bool,
    /// The fingerprint by which the call opens the new server.
    joining: Option<Fingerprint>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct State {
    servers: [Server; 7],
    calls: Vec<Call>,
    /// A request whose answer was lost, and which is not executed yet.
    pending: Option<(usize, Request)>,
    may_lose_answer: bool,
    may_die: Option<usize>,
    /// A replaced node whose data may be deleted while its successor is open.
    may_flush: Option<usize>,
    /// The nodes that may lose their records while no call is in progress, unless a node has the only record of the server
    /// that stands in for R.
    may_forget: Vec<usize>,
}

fn call(id: u8, old: usize, new: usize, others: [usize; 2]) -> Call {
    Call {
        id,
        old,
        new,
        others,
        step: Step::Check,
        of_old: OldNode::Unknown,
        is_opened: false,
        is_continued: false,
        is_unfit: false,
        is_recorded: false,
        joining: None,
    }
}

/// Returns a call that abandons the replacement.
fn abandon(old: usize, new: usize, others: [usize; 2]) -> Call {
    Call { step: Step::Abandon, ..call(0, old, new, others) }
}

impl Call {
    fn pair(&self) -> Pair {
        Pair { old: NAMES[self.old].to_owned(), new: NAMES[self.new].to_owned() }
    }

    fn name(&self) -> String {
        self.id.to_string()
    }

    fn opens(&self) -> bool {
        !self.is_opened && !self.is_unfit
    }

    fn only_adds_a_vote(&self) -> bool {
        self.is_continued || self.is_opened
    }

    /// Ends the call after a request that failed.
    fn fail(&mut self) {
        self.step = match self.step {
            Step::Close | Step::Begin(_) | Step::BeginAtOld | Step::Confirm(_)
                if self.of_old != OldNode::Retired =>
            {
                Step::WithdrawAtOld
            }
            _ => Step::Over,
        };
    }
}

impl Call {
    /// Ends the call before the request to retire the old node.
    fn end_before_retirement(&mut self) {
        self.step = if self.of_old == OldNode::Retired { Step::Over } else { Step::WithdrawAtOld };
    }
}

impl Server {
    fn is_open(&self) -> bool {
        self.is_alive && self.fingerprint == Fingerprint::Open
    }

    fn execute(&mut self, request: &Request) -> bool {
        if !self.is_alive {
            return false;
        }
        match request {
            Request::Record { from, to } => {
                let is_done = self.fingerprint == Fingerprint::Open && self.record == *from;
                if is_done {
                    self.record = to.clone();
                }
                is_done
            }
            Request::Fingerprint { from, to, requires, writes } => {
                let is_done = self.fingerprint == *from
                    && requires.as_ref().is_none_or(|record| *record == self.record);
                if is_done {
                    self.fingerprint = to.clone();
                    if let Some(record) = writes {
                        self.record = record.clone();
                    }
                }
                is_done
            }
        }
    }
}

impl State {
    fn new(calls: Vec<Call>) -> Self {
        let server = |index: usize| Server {
            fingerprint: if index < R { Fingerprint::Open } else { Fingerprint::None },
            record: ReplacementRecord::default(),
            is_alive: true,
        };
        Self {
            servers: [X, Y, O, R, S, T, U].map(server),
            calls,
            pending: None,
            may_lose_answer: false,
            may_die: None,
            may_flush: None,
            may_forget: Vec::new(),
        }
    }

    /// Returns all states that follow by one step.
    fn next(&self) -> Vec<Self> {
        let mut next = Vec::new();
        for index in 0..self.calls.len() {
            if self.calls[index].step != Step::Over {
                self.steps_of(index, &mut next);
            }
        }
        if let Some((server, request)) = &self.pending {
            let mut state = self.clone();
            state.servers[*server].execute(request);
            state.pending = None;
            next.push(state);
        }
        if let Some(server) = self.may_die {
            let mut state = self.clone();
            state.servers[server].is_alive = false;
            state.may_die = None;
            next.push(state);
        }
        if let Some(server) = self.may_forget.last()
            && self.calls.iter().all(|call| matches!(call.step, Step::Check | Step::Abandon | Step::Over))
            && [X, Y].into_iter().any(|other| {
                let successor = |node: usize| self.servers[node].record.successor(NAMES[R]);
                other != *server && successor(other) == successor(*server)
            })
        {
            let mut state = self.clone();
            state.servers[*server].record = ReplacementRecord::default();
            state.may_forget.pop();
            next.push(state);
        }
        if let Some(server) = self.may_flush
            && let Fingerprint::Replaced(by) = self.servers[server].fingerprint
            && self.servers[by].is_open()
        {
            let mut state = self.clone();
            state.servers[server].fingerprint = Fingerprint::None;
            state.servers[server].record = ReplacementRecord::default();
            state.may_flush = None;
            next.push(state);
        }
        next
    }

    /// Adds the states that follow by the next step of a call.
    fn steps_of(&self, index: usize, next: &mut Vec<Self>) {
        let mut state = self.clone();
        let mut call = state.calls[index].clone();
        let (server, request, following) = match state.prepare(&mut call) {
            Prepared::Decided => {
                state.calls[index] = call;
                next.push(state);
                return;
            }
            Prepared::Sent(server, request, following) => (server, request, following),
        };
        if self.may_lose_answer {
            let mut lost = state.clone();
            let mut failed = call.clone();
            failed.fail();
            lost.calls[index] = failed;
            lost.pending = Some((server, request.clone()));
            lost.may_lose_answer = false;
            next.push(lost);
        }
        if state.servers[server].execute(&request) {
            call.step = following;
            if matches!(request, Request::Fingerprint { to: Fingerprint::Replaced(_), .. }) {
                call.of_old = OldNode::Retired;
            }
        } else if matches!(call.step, Step::Withdraw(_) | Step::WithdrawAtOld | Step::AbandonAt(_)) {
            call.step = following;
        } else {
            call.fail();
        }
        state.calls[index] = call;
        next.push(state);
    }

    /// Returns what a call does next. A step that sends nothing is decided.
    fn prepare(&self, call: &mut Call) -> Prepared {
        let (pair, name, servers) = (call.pair(), call.name(), &self.servers);
        let (old, new) = (&servers[call.old], &servers[call.new]);
        let change = |server: usize, to: ReplacementRecord, following: Step| {
            let from = servers[server].record.clone();
            Prepared::Sent(server, Request::Record { from, to }, following)
        };
        match call.step {
            Step::Check => {
                let open: Vec<usize> =
                    call.others.into_iter().filter(|other| servers[*other].is_open()).collect();
                let of_old = self.ask_old(call);
                let merged = ReplacementRecord::merged(open.iter().map(|other| &servers[*other].record));
                let is_ended = of_old == Some(OldNode::Retired) || merged.is_ended(&pair);
                let is_opened = new.fingerprint == Fingerprint::Open && new.record.is_ended(&pair);
                let is_fit = match new.fingerprint {
                    Fingerprint::None => true,
                    Fingerprint::Joining(old, _) => old == call.old,
                    Fingerprint::Open => is_opened || is_ended,
                    Fingerprint::Replaced(_) => false,
                };
                call.is_unfit = !new.is_alive && is_ended;
                let of_old = of_old.filter(|_| if new.is_alive { is_fit } else { is_ended });
                call.of_old = of_old.unwrap_or(OldNode::Unknown);
                call.is_opened =
                    new.is_alive && is_opened && matches!(call.of_old, OldNode::Retired | OldNode::Gone);
                let is_closed = matches!(new.fingerprint, Fingerprint::Joining(..));
                let is_closed = mutation::altered(Mutation::NeedOneOther, is_closed, |_| true);
                call.is_continued = call.of_old == OldNode::Retired && (is_closed || call.is_unfit);
                let listed = [call.others[0], call.others[1], call.old, call.new].map(|server| NAMES[server]);
                let is_out_of_date = call.of_old != OldNode::Open
                    && (merged.standing_in().any(|pair| !listed.contains(&&*pair.new))
                        || (!merged.contains(&pair) && merged.successor(&pair.new).is_some()));
                let needed = if call.only_adds_a_vote() { 1 } else { 2 };
                let is_excluded =
                    open.iter().any(|other| servers[*other].record.begin(&pair, &name).is_err());
                call.step = match of_old {
                    None => Step::Over,
                    Some(_) if is_excluded || is_out_of_date || open.len() < needed => Step::Over,
                    Some(_) if call.is_opened || call.is_unfit => Step::Begin(0),
                    Some(_) => Step::Close,
                };
            }
            Step::Close => {
                let joining = Fingerprint::Joining(call.old, call.id);
                let (from, requires) = match &new.fingerprint {
                    Fingerprint::Replaced(_) => {
                        call.fail();
                        return Prepared::Decided;
                    }
                    Fingerprint::None => (Fingerprint::None, Some(ReplacementRecord::default())),
                    Fingerprint::Joining(old, _) if *old != call.old => {
                        call.fail();
                        return Prepared::Decided;
                    }
                    Fingerprint::Joining(..) => (new.fingerprint.clone(), None),
                    Fingerprint::Open if new.record.unfinished_beside(&pair).is_some() => {
                        call.fail();
                        return Prepared::Decided;
                    }
                    Fingerprint::Open => (Fingerprint::Open, Some(new.record.clone())),
                };
                call.joining = Some(joining.clone());
                let request = Request::Fingerprint { from, to: joining, requires, writes: None };
                return Prepared::Sent(call.new, request, Step::Begin(0));
            }
            Step::Begin(number) => {
                let following = match number {
                    0 => Step::Begin(1),
                    _ if call.of_old == OldNode::Open => Step::BeginAtOld,
                    _ => Step::Confirm(0),
                };
                return self.change_other(call, number, following, |record| record.begin(&pair, &name).ok());
            }
            Step::BeginAtOld => match old.record.begin(&pair, &name) {
                Ok(to) => return change(call.old, to, Step::Confirm(0)),
                Err(_) => call.fail(),
            },
            Step::Confirm(number) => {
                let following = if number == 0 { Step::Confirm(1) } else { Step::EndOld };
                let confirm =
                    |record: &ReplacementRecord| record.confirm(&pair, &name).ok().map(|()| record.clone());
                return self.change_other(call, number, following, confirm);
            }
            Step::EndOld => {
                if call.is_opened {
                    call.step = Step::Retired(0);
                    return Prepared::Decided;
                }
                if !call.is_unfit && (!new.is_alive || Some(&new.fingerprint) != call.joining.as_ref()) {
                    call.end_before_retirement();
                    return Prepared::Decided;
                }
                match (self.ask_old(call), call.of_old) {
                    (Some(OldNode::Gone), OldNode::Retired) => call.step = Step::Retired(0),
                    (Some(OldNode::Gone), OldNode::Open) => call.end_before_retirement(),
                    (Some(of_old @ (OldNode::Gone | OldNode::Retired)), _) => {
                        call.of_old = of_old;
                        call.step = Step::Retired(0);
                    }
                    (Some(OldNode::Open), OldNode::Open) => {
                        let requires = match old.record.confirm(&pair, &name) {
                            _ if mutation::is_on(Mutation::RetireWithoutRecord) => None,
                            Ok(()) => Some(old.record.clone()),
                            Err(_) => {
                                call.end_before_retirement();
                                return Prepared::Decided;
                            }
                        };
                        let (from, to) = (Fingerprint::Open, Fingerprint::Replaced(call.new));
                        let request = Request::Fingerprint { from, to, requires, writes: None };
                        return Prepared::Sent(call.old, request, Step::Retired(0));
                    }
                    _ => call.end_before_retirement(),
                }
            }
            Step::Retired(number) => return self.record_retired(call, number),
            Step::Open => {
                let records = call.others.iter().map(|other| &servers[*other].record);
                let writes = Some(ReplacementRecord::of_opened(&pair, records));
                let (from, to) = (call.joining.clone().unwrap_or(Fingerprint::None), Fingerprint::Open);
                let request = Request::Fingerprint { from, to, requires: None, writes };
                return Prepared::Sent(call.new, request, Step::Done(0));
            }
            Step::Done(number) => {
                let following = if number == 0 { Step::Done(1) } else { Step::Over };
                let other = call.others[number];
                match servers[other].record.complete(&pair, &name, call.opens()) {
                    Ok(to) if servers[other].is_open() => return change(other, to, following),
                    _ => call.step = following,
                }
            }
            Step::WithdrawAtOld => {
                if call.of_old == OldNode::Open && old.is_open() {
                    return change(call.old, old.record.withdraw(&pair, &name), Step::Withdraw(0));
                }
                call.step = Step::Withdraw(0);
            }
            Step::Withdraw(number) => {
                let following = if number == 0 { Step::Withdraw(1) } else { Step::Over };
                let other = call.others[number];
                return change(other, servers[other].record.withdraw(&pair, &name), following);
            }
            Step::Abandon => {
                let is_ended = call.others.iter().any(|other| servers[*other].record.is_ended(&pair));
                call.step = if is_ended { Step::Over } else { Step::AbandonAtOld };
            }
            Step::AbandonAtOld => match old.fingerprint {
                Fingerprint::Replaced(by) if by == call.new && old.is_alive => call.step = Step::Over,
                Fingerprint::Open if old.is_alive => match old.record.abandon(&pair) {
                    Ok(to) => return change(call.old, to, Step::AbandonAt(0)),
                    Err(_) => call.step = Step::Over,
                },
                _ => call.step = Step::AbandonAt(0),
            },
            Step::AbandonAt(number) => {
                let following = if number == 0 { Step::AbandonAt(1) } else { Step::Over };
                match servers[call.others[number]].record.abandon(&pair) {
                    Ok(to) => return change(call.others[number], to, following),
                    Err(_) => call.step = Step::Over,
                }
            }
            Step::Over => {}
        }
        Prepared::Decided
    }

    /// Returns the state of the old node; `None` if the node cannot be replaced by this server.
    fn ask_old(&self, call: &Call) -> Option<OldNode> {
        let old = &self.servers[call.old];
        match old.fingerprint {
            // No right list of nodes names a server that stands in for no node.
            Fingerprint::None => None,
            Fingerprint::Joining(of, _) if !old.is_alive && self.servers[of].is_open() => None,
            _ if !old.is_alive => Some(OldNode::Gone),
            Fingerprint::Open => Some(OldNode::Open),
            Fingerprint::Replaced(by) if by == call.new => Some(OldNode::Retired),
            _ => None,
        }
    }

    /// Returns the step of the begin or the confirmation at one of the others, which may be absent if the call only adds a
    /// vote.
    fn change_other(
        &self,
        call: &mut Call,
        number: usize,
        following: Step,
        change: impl Fn(&ReplacementRecord) -> Option<ReplacementRecord>,
    ) -> Prepared {
        let (server, other) = (call.others[number], &self.servers[call.others[number]]);
        if !other.is_open() && call.only_adds_a_vote() {
            call.step = following;
            return Prepared::Decided;
        }
        match change(&other.record) {
            Some(to) if other.is_open() => {
                Prepared::Sent(server, Request::Record { from: other.record.clone(), to }, following)
            }
            _ => {
                call.fail();
                Prepared::Decided
            }
        }
    }

    fn record_retired(&self, call: &mut Call, number: usize) -> Prepared {
        let (pair, server) = (call.pair(), call.others[number]);
        let other = &self.servers[server];
        let is_needed_on_all = call.of_old == OldNode::Gone && !call.is_opened;
        let after = match call {
            Call { is_unfit: true, .. } => Step::Over,
            Call { is_opened: true, .. } => Step::Done(0),
            _ => Step::Open,
        };
        match other.record.retire(&pair, &call.name(), call.opens()) {
            Ok(to) if other.is_open() => {
                call.is_recorded = true;
                let following = if number == 0 { Step::Retired(1) } else { after };
                Prepared::Sent(server, Request::Record { from: other.record.clone(), to }, following)
            }
            _ => {
                call.step = match number {
                    _ if is_needed_on_all => Step::Over,
                    0 => Step::Retired(1),
                    _ if call.is_recorded => after,
                    _ => Step::Over,
                };
                Prepared::Decided
            }
        }
    }

    /// Returns the first promise that the state breaks.
    fn violation(&self) -> Option<&'static str> {
        let is_open = |server: usize| self.servers[server].is_open();
        let open_of = |slot: &[usize]| slot.iter().filter(|server| is_open(**server)).count();
        if open_of(&[O, R, S, U]) > 1 || open_of(&[X, T]) > 1 {
            return Some("two servers of one node may vote");
        }
        let is_retired = |slot: &[usize]| {
            let is_replaced =
                |server: &usize| matches!(self.servers[*server].fingerprint, Fingerprint::Replaced(_));
            slot.iter().any(is_replaced) && open_of(slot) == 0 && self.servers[slot[0]].is_alive
        };
        if is_retired(&[O, R, S, U]) && is_retired(&[X, T]) {
            return Some("two nodes are retired, and no server votes in their place");
        }
        None
    }
}

enum Prepared {
    /// The call has taken the step without a request.
    Decided,
    /// The call sends a request to a server, and takes the next step after the answer.
    Sent(usize, Request, Step),
}

/// Searches all states that follow. Returns the number of states, or the steps to the first violation.
fn search(first: State) -> Result<usize, String> {
    // Two states have the same hash with a chance of less than one in a million.
    let hasher = RandomState::new();
    let (mut known, mut open) = (HashSet::from([hasher.hash_one(&first)]), vec![first]);
    while let Some(state) = open.pop() {
        if let Some(violation) = state.violation() {
            return Err(format!("{violation}: {state:?}"));
        }
        assert!(known.len() < MAX_STATES, "the search has too many states");
        for next in state.next() {
            if known.insert(hasher.hash_one(&next)) {
                open.push(next);
            }
        }
    }
    Ok(known.len())
}

/// Returns the situations of the search, with their names.
fn situations() -> Vec<(&'static str, State)> {
    let others = [X, Y];
    let of = |calls: Vec<Call>| State::new(calls);
    let dying = |state: State| State { may_die: Some(O), ..state };
    let losing = |state: State| State { may_lose_answer: true, ..state };
    let by_two = || vec![call(1, O, R, others), call(2, O, S, others)];
    let with = |mut calls: Vec<Call>, more: Vec<Call>| {
        calls.extend(more);
        calls
    };
    let twice = || vec![call(1, O, R, others), call(2, O, R, others)];
    vec![
        (
            "two servers, abandoned",
            dying(of(with(by_two(), vec![abandon(O, R, others), abandon(O, S, others)]))),
        ),
        ("two servers, a lost answer", losing(dying(of(with(by_two(), vec![abandon(O, S, others)]))))),
        ("one server twice, and another one", dying(of(with(twice(), vec![call(3, O, S, others)])))),
        ("one server twice, a lost answer", losing(dying(of(twice())))),
        (
            "two nodes, abandoned",
            of(vec![
                call(1, O, R, [X, Y]),
                call(2, X, T, [O, Y]),
                abandon(O, R, [X, Y]),
                abandon(X, T, [O, Y]),
            ]),
        ),
        (
            "two nodes, a lost answer",
            losing(of(vec![call(1, O, R, [X, Y]), call(2, X, T, [O, Y]), call(3, X, T, [R, Y])])),
        ),
        (
            "a new server in turn",
            dying(of(vec![
                call(1, O, R, others),
                call(2, O, R, others),
                call(3, R, S, others),
                abandon(O, R, others),
            ])),
        ),
        (
            "an old command again",
            State {
                may_flush: Some(R),
                may_forget: vec![X],
                may_die: Some(Y),
                ..of(vec![call(1, O, R, others), call(2, R, S, others), call(3, O, R, others)])
            },
        ),
        (
            "an old command again, the new server dead",
            State {
                may_forget: vec![X, Y],
                may_die: Some(R),
                ..of(vec![
                    call(1, O, R, others),
                    call(2, R, S, others),
                    call(3, O, R, others),
                    call(4, R, U, others),
                ])
            },
        ),
        (
            "an address that is used again",
            State {
                may_flush: Some(O),
                ..of(vec![
                    call(1, O, R, others),
                    call(2, R, O, others),
                    call(3, O, S, others),
                    abandon(O, S, others),
                ])
            },
        ),
    ]
}

#[test]
fn no_order_of_the_steps_of_several_calls_opens_two_servers_or_retires_two_nodes() {
    for (name, state) in situations() {
        let states = search(state).unwrap_or_else(|violation| panic!("{name}: {violation}"));
        assert!(states > 1_000, "{name}: {states}");
    }
}

#[test]
fn the_search_finds_two_servers_or_two_retired_nodes_if_one_rule_is_broken() {
    for (rule, situation) in [
        (Mutation::ForgetReplacements, "two servers, abandoned"),
        (Mutation::IgnoreUnfinished, "two nodes, abandoned"),
        (Mutation::ContinueWithoutBegin, "two nodes, abandoned"),
        (Mutation::RetireWithoutRecord, "two nodes, abandoned"),
        (Mutation::NeedOneOther, "an old command again"),
        (Mutation::EndUnopened, "an old command again, the new server dead"),
    ] {
        let _broken = break_rule(Some(rule));
        let broken = situations().into_iter().filter(|(name, _)| *name == situation);
        assert!(broken.into_iter().any(|(_, state)| search(state).is_err()), "{rule:?}");
    }
}
