//! The operation `init`, which admits new nodes to a new quorum without a quarantine, and refuses nodes that may have
//! voted.

use super::*;
use crate::{
    mutation::{Mutation, break_rule},
    node::{
        Abstention, Init, NewNodes, QuarantineParameters, QuorumParameters, Reconfigure, RecordReplacements,
        Register, Registration, RestartGuard,
    },
};

/// A node, and a client that has registered in the node's present incarnation.
#[derive(Clone)]
struct Node {
    fixture: Fixture,
    guard: RestartGuard,
    incarnations: u32,
    /// Whether the requests are of a client with the other configuration.
    is_other: bool,
    quarantine: QuarantineParameters,
}

/// Returns the fingerprint of the first configuration, or of the other configuration.
fn configuration(is_other: bool) -> Fingerprint {
    if is_other { Fingerprint::new("other") } else { parameters().fingerprint }
}

impl Node {
    fn new() -> Self {
        Self {
            fixture: Fixture::new(),
            guard: RestartGuard::PerConnection,
            incarnations: 0,
            is_other: false,
            quarantine: parameters().quarantine,
        }
    }

    /// Returns a new node that a client has registered, and that is in its first quarantine.
    fn in_first_quarantine() -> Self {
        let mut node = Self::new();
        assert_eq!(node.register(NewNodes::Quarantine), Some(parameters().quarantine.lasts));
        node
    }

    fn incarnation(&self) -> String {
        if self.incarnations == 0 {
            "incarnation".to_owned()
        } else {
            format!("incarnation{}", self.incarnations)
        }
    }

    fn ask(&mut self, operation: &Operation) -> Answer {
        let guarded = QuorumParameters {
            guard: self.guard,
            fingerprint: configuration(self.is_other),
            incarnation: Some(self.incarnation().as_str().into()),
            quarantine: self.quarantine,
            ..parameters()
        };
        self.fixture.state.apply(&guarded, operation, self.fixture.now()).answer
    }

    fn register(&mut self, new_nodes: NewNodes) -> Option<Duration> {
        match self.try_register(new_nodes) {
            Answer::Registered(registration) => registration.quarantine,
            other => panic!("{other:?}"),
        }
    }

    fn try_register(&mut self, new_nodes: NewNodes) -> Answer {
        let time = self.fixture.now().since_epoch();
        self.ask(&Operation::Register(Register { new_nodes, time }))
    }

    fn init(&mut self) -> Answer {
        let is_dry_run = false;
        self.init_at(is_dry_run, self.fixture.now().since_epoch())
    }

    fn init_at(&mut self, is_dry_run: bool, time: Duration) -> Answer {
        self.ask(&Operation::Init(Init { is_dry_run, time }))
    }

    /// Restarts the node, which keeps its data.
    fn restart(&mut self) {
        self.incarnations += 1;
        let incarnation = self.incarnation();
        self.fixture.state.restart(&incarnation);
    }

    /// Returns the step of a move that closes the node, from the configuration of the present client to the other one.
    fn close(&self) -> Reconfigure {
        let (from, to) = (configuration(self.is_other), configuration(!self.is_other));
        Reconfigure { to: to.closed_by(&from, "1"), from, record: None }
    }

    /// Returns the next step of a replacement by this node in the configuration of the present client: closes the node,
    /// or opens the closed node.
    fn join(&self) -> Reconfigure {
        let ours = configuration(self.is_other);
        let joining = ours.joining_by("old:6379", "1");
        let is_joining =
            self.fixture.state.metadata().is_some_and(|metadata| metadata.fingerprint == joining);
        if is_joining {
            Reconfigure { from: joining, to: ours, record: None }
        } else {
            Reconfigure { from: ours, to: joining, record: None }
        }
    }

    /// Returns the step of a replacement that retires this node in the configuration of the present client.
    fn retire(&self) -> Reconfigure {
        let ours = configuration(self.is_other);
        Reconfigure { to: ours.replaced_by("new:6379"), from: ours, record: None }
    }

    /// Whether both nodes answer all later requests in the same way.
    fn is_like(&self, other: &Self) -> bool {
        let of = |node: &Self| (node.fixture.milliseconds, node.incarnations, node.is_other);
        of(self) == of(other) && self.fixture.state == other.fixture.state
    }

    /// Checks that `init` refuses the node and changes nothing.
    fn assert_init_is_refused(&mut self) {
        let before = self.fixture.state.clone();
        assert_eq!(self.init(), Answer::AlreadyRegistered { fingerprint: parameters().fingerprint });
        assert_eq!(self.fixture.state, before, "a refusal changes nothing");
    }

    fn vote(&mut self) -> u64 {
        match self.ask(&lock("a", "me", 5000, 0)) {
            Answer::Granted { vote } => vote,
            other => panic!("{other:?}"),
        }
    }
}

fn is_admitted(answer: &Answer) -> bool {
    matches!(answer, Answer::Registered(Registration { quarantine: None, .. }))
}

#[test]
fn init_ends_the_first_quarantine_of_a_new_node() {
    for guard in [RestartGuard::PerConnection, RestartGuard::PerVote] {
        let mut node = Node { guard, ..Node::in_first_quarantine() };
        assert!(matches!(node.ask(&lock("a", "me", 5000, 0)), Answer::Abstains(_)));
        let answer = node.init();
        assert!(is_admitted(&answer), "{answer:?}");
        assert_eq!(node.vote(), START + 1, "a minimum token raises the first vote of a new node");
        node.assert_init_is_refused();
    }
}

#[test]
fn a_restart_within_a_second_of_init_repeats_no_vote() {
    let mut node = Node::in_first_quarantine();
    node.init();
    let before = node.vote();
    node.ask(&unlock("a", "me", true, false));
    node.fixture.state.set_counter(&resource("a"), None);
    node.restart();
    node.register(NewNodes::Quarantine);
    node.fixture.milliseconds += 62_000;
    assert!(node.vote() > before);
}

#[test]
fn a_dry_run_answers_like_init_and_changes_nothing() {
    let mut node = Node::new();
    let before = node.fixture.state.clone();
    let now = node.fixture.now().since_epoch();
    let is_dry_run = true;
    let answer = node.init_at(is_dry_run, now);
    assert!(is_admitted(&answer), "{answer:?}");
    assert_eq!(node.fixture.state, before);
    node.init();
    let refused = Answer::AlreadyRegistered { fingerprint: parameters().fingerprint };
    assert_eq!(node.init_at(is_dry_run, now), refused);
}

#[test]
fn init_refuses_a_node_after_a_renewal() {
    let renewal = renew("a", "me", 1, 5000, START);
    let mut node = Node::in_first_quarantine();
    assert!(matches!(node.ask(&renewal), Answer::RenewedInQuarantine(_)));
    node.assert_init_is_refused();
    // The renewal may also arrive before the registration.
    let mut node = Node::new();
    assert_eq!(node.ask(&renewal), Answer::RenewedInQuarantine(Abstention::NotRegistered));
    node.assert_init_is_refused();
    node.register(NewNodes::Quarantine);
    node.assert_init_is_refused();
}

#[test]
fn init_refuses_a_node_that_may_have_voted() {
    type Change = fn(&mut Node);
    let cases: [(&str, Change); 5] = [
        ("after its quarantine", |node| node.fixture.milliseconds += 62_000),
        ("after a restart without a registration", Node::restart),
        ("in the second quarantine, after a restart", |node| {
            node.restart();
            assert!(node.register(NewNodes::Quarantine).is_some());
        }),
        ("after a reconfiguration", |node| {
            let same = parameters().fingerprint;
            node.ask(&Operation::Reconfigure(Reconfigure { from: same.clone(), to: same, record: None }));
        }),
        ("admitted by its first client", |node| {
            *node = Node::new();
            assert_eq!(node.register(NewNodes::Admit), None);
        }),
    ];
    for (case, change) in cases {
        let mut node = Node::in_first_quarantine();
        change(&mut node);
        assert_eq!(
            node.init(),
            Answer::AlreadyRegistered { fingerprint: parameters().fingerprint },
            "{case}"
        );
    }
}

#[test]
fn init_takes_over_a_node_in_the_first_quarantine_of_another_configuration() {
    for guard in [RestartGuard::PerConnection, RestartGuard::PerVote] {
        let mut node = Node { guard, ..Node::in_first_quarantine() };
        node.is_other = true;
        let refused = Answer::WrongQuorum { fingerprint: configuration(false) };
        assert_eq!(node.try_register(NewNodes::Quarantine), refused, "only `init` takes a node over");
        let answer = node.init();
        assert!(is_admitted(&answer), "{answer:?}");
        assert_eq!(node.vote(), START + 1);
        node.is_other = false;
        let refused = Answer::WrongQuorum { fingerprint: configuration(true) };
        assert_eq!(node.ask(&lock("b", "first", 5000, 0)), refused, "the first client is of another quorum");
        assert_eq!(node.init(), Answer::AlreadyRegistered { fingerprint: configuration(true) });
    }
}

#[test]
fn init_takes_over_no_node_that_was_in_a_quorum() {
    type Change = fn(&mut Node);
    let cases: [(&str, Change); 5] = [
        ("its quarantine has ended", |node| node.fixture.milliseconds += 62_000),
        ("it restarted", Node::restart),
        ("it was admitted", |node| drop(node.init())),
        ("a lease of its configuration was renewed", |node| {
            node.ask(&renew("a", "me", 1, 5000, START));
        }),
        ("a lease of another configuration was renewed", |node| {
            node.is_other = true;
            let refused = Answer::WrongQuorum { fingerprint: configuration(false) };
            assert_eq!(node.ask(&renew("a", "me", 1, 5000, START)), refused);
        }),
    ];
    for (case, change) in cases {
        let mut node = Node::in_first_quarantine();
        change(&mut node);
        node.is_other = true;
        let before = node.fixture.state.clone();
        assert_eq!(node.init(), Answer::AlreadyRegistered { fingerprint: configuration(false) }, "{case}");
        assert_eq!(node.fixture.state, before, "{case}");
    }
}

#[test]
fn a_new_node_stays_new_if_it_is_closed_and_returns_to_its_configuration() {
    let (first, other) = (configuration(false), configuration(true));
    let step = |from: &Fingerprint, to: &Fingerprint| {
        Operation::Reconfigure(Reconfigure { from: from.clone(), to: to.clone(), record: None })
    };
    let (closed, for_good) = (other.closed_by(&first, "1"), other.closed_for_good_by(&first, "1"));
    for fingerprints in [&[&closed][..], &[&closed, &for_good]] {
        let mut node = Node::in_first_quarantine();
        let mut present = &first;
        for next in fingerprints {
            node.ask(&step(present, next));
            present = next;
        }
        for is_other in [false, true] {
            node.is_other = is_other;
            let refused = Answer::AlreadyRegistered { fingerprint: present.clone() };
            assert_eq!(node.init(), refused, "a closed node belongs to its move");
        }
        let mut opened = node.clone();
        opened.ask(&step(present, &other));
        opened.is_other = false;
        assert_eq!(opened.init(), Answer::AlreadyRegistered { fingerprint: other.clone() });
        let mut renewed = node.clone();
        renewed.is_other = false;
        renewed.ask(&renew("a", "me", 1, 5000, START));
        for (mut node, is_new) in [(node, true), (renewed, false)] {
            node.ask(&step(present, &first));
            node.is_other = true;
            assert_eq!(is_admitted(&node.init()), is_new, "{present}");
        }
    }
}

/// The record is about the nodes of one configuration.
#[test]
fn a_move_that_opens_a_node_ends_its_record_of_replacements() {
    let (ours, other) = (configuration(false), configuration(true));
    let closed = other.closed_by(&ours, "1");
    let step = |from: &Fingerprint, to: &Fingerprint| {
        Operation::Reconfigure(Reconfigure { from: from.clone(), to: to.clone(), record: None })
    };
    let record = |from: &str, to: &str| {
        Operation::RecordReplacements(RecordReplacements { from: from.into(), to: to.into() })
    };
    for (opened, kept) in [(&ours, "a:1 by b:1 done"), (&other, "")] {
        let mut node = Node::new();
        node.init();
        node.ask(&record("", "a:1 by b:1 done"));
        for (from, to) in [(&ours, &closed), (&closed, opened)] {
            assert!(matches!(node.ask(&step(from, to)), Answer::Registered(_)));
        }
        node.is_other = *opened == other;
        assert_eq!(node.ask(&record("", "")), Answer::Recorded { text: kept.into() });
        // The same request again changes no record of the new configuration.
        node.ask(&record(kept, "c:1 by d:1 begun"));
        node.ask(&step(&closed, opened));
        assert_eq!(node.ask(&record("", "")), Answer::Recorded { text: "c:1 by d:1 begun".into() });
    }
}

/// The first vote of the new server is above every vote of the old node, if the clock of the server is not behind.
#[test]
fn a_new_server_that_is_opened_begins_a_quarantine_and_raises_its_minimum_token() {
    let mut node = Node::in_first_quarantine();
    let (close, ours) = (node.join(), configuration(false));
    assert!(matches!(node.ask(&Operation::Reconfigure(close)), Answer::Registered(_)));
    node.fixture.milliseconds += 62_000;
    let refused = Answer::WrongQuorum { fingerprint: node.join().from };
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), refused, "a closed server votes for no client");
    let open = Operation::Reconfigure(node.join());
    let Answer::Registered(Registration { quarantine, .. }) = node.ask(&open) else { panic!("not opened") };
    assert_eq!(quarantine, Some(parameters().quarantine.lasts + crate::node::operation::CLOCK_MARGIN));
    assert!(matches!(node.ask(&lock("a", "me", 5000, 0)), Answer::Abstains(_)));
    node.fixture.milliseconds += 30_000;
    let Answer::Registered(Registration { quarantine, .. }) = node.ask(&open) else { panic!("not opened") };
    assert!(quarantine < Some(parameters().quarantine.lasts), "a repeated request begins no quarantine");
    node.fixture.milliseconds += 34_000;
    let minimum_token = node.fixture.state.metadata().unwrap().minimum_token;
    assert!(minimum_token > START + 64_000_000 && node.vote() > minimum_token, "{minimum_token}");
    assert_eq!(node.init(), Answer::AlreadyRegistered { fingerprint: ours });
}

/// Returns whether a new server with the shortest `max_ttl`, whose clock is up to a second behind that of the old node, votes
/// above the old node, and after a loss of its data above its own votes.
fn votes_grow_across_a_replacement() -> bool {
    let lasts = Duration::from_millis(1_010);
    let quarantine = QuarantineParameters { lasts, renewals_after: Duration::from_millis(100) };
    let first_vote = |node: &mut Node, resource: &str| {
        for _ in 0..1_000 {
            if let Answer::Granted { vote } = node.ask(&lock(resource, "me", 5000, 0)) {
                return vote;
            }
            node.fixture.milliseconds += 10;
        }
        panic!("the node does not vote");
    };
    let mut is_growing = true;
    for behind in [0, 1_000] {
        for offset in (0..1_000).step_by(100) {
            let at = |milliseconds: u64| {
                let mut node = Node { quarantine, ..Node::new() };
                node.fixture.milliseconds += 10_000 + offset + milliseconds;
                node
            };
            let mut old = at(behind);
            old.init();
            let of_old = first_vote(&mut old, "a");
            let mut new = at(0);
            new.register(NewNodes::Quarantine);
            for _ in [0, 1] {
                let step = new.join();
                assert!(matches!(new.ask(&Operation::Reconfigure(step)), Answer::Registered(_)));
            }
            let of_new = first_vote(&mut new, "a");
            new.fixture.state.flush();
            new.restart();
            new.register(NewNodes::Quarantine);
            is_growing &= of_old < of_new && of_new < first_vote(&mut new, "a");
        }
    }
    is_growing
}

#[test]
fn the_votes_of_a_new_server_grow_for_every_max_ttl_and_clock() {
    assert!(votes_grow_across_a_replacement());
    let _broken = break_rule(Some(Mutation::JoinWithoutQuarantine));
    assert!(!votes_grow_across_a_replacement());
}

#[test]
fn a_retired_node_votes_for_no_client_after_a_restart_and_a_registration() {
    let mut node = Node::new();
    node.init();
    node.vote();
    let replaced = node.retire().to;
    node.ask(&Operation::Reconfigure(node.retire()));
    let refused = Answer::WrongQuorum { fingerprint: replaced.clone() };
    assert_eq!(node.ask(&renew("a", "me", 1, 5000, START)), refused);
    node.restart();
    assert_eq!(node.try_register(NewNodes::Admit), refused);
    node.fixture.milliseconds += 62_000;
    assert_eq!(node.ask(&lock("b", "me", 5000, 0)), refused);
    assert_eq!(node.init(), Answer::AlreadyRegistered { fingerprint: replaced });
}

#[test]
fn a_read_only_client_registers_only_nodes_with_metadata() {
    let mut node = Node::new();
    let before = node.fixture.state.clone();
    assert_eq!(node.register(NewNodes::Ignore), None);
    assert_eq!(node.fixture.state, before);
    node.init();
    node.restart();
    assert_eq!(node.register(NewNodes::Ignore), Some(parameters().quarantine.lasts));
}

#[test]
fn init_is_refused_if_the_clocks_differ_by_more_than_an_hour() {
    let mut node = Node::new();
    let before = node.fixture.state.clone();
    let gap = Duration::from_secs(7200);
    let now = node.fixture.now().since_epoch();
    for is_dry_run in [true, false] {
        let clock_off = NodeError::ClockOff { gap, is_node_ahead: false };
        assert_eq!(node.init_at(is_dry_run, now + gap), Answer::Error(clock_off));
    }
    assert_eq!(node.fixture.state, before);
}

#[test]
fn a_node_after_init_proves_no_earlier_lease() {
    let mut node = Node::in_first_quarantine();
    node.init();
    let token = START - 1;
    for _ in 0..2 {
        assert_eq!(node.ask(&renew("a", "me", 1, 5000, token)), Answer::Renewed { proves: false });
    }
}

/// An event at a node that keeps its data.
#[derive(Clone, Copy, Debug)]
enum Event {
    Register(NewNodes),
    Init,
    Lock,
    WriteBack,
    Renew,
    Unlock,
    Restart,
    Wait(u64),
    /// The change to a client of the other configuration, for all later events.
    Switch,
    /// A step of a move to the other configuration, which closes the node.
    Close,
    /// A give-up of that move, which opens the node again.
    GiveUp,
    /// A step of a replacement by this node: closes the node, or opens the closed node.
    Join,
    /// The step of a replacement that retires this node.
    Retire,
}

const EVENTS: [Event; 16] = [
    Event::Register(NewNodes::Quarantine),
    Event::Register(NewNodes::Admit),
    Event::Register(NewNodes::Ignore),
    Event::Init,
    Event::Lock,
    Event::WriteBack,
    Event::Renew,
    Event::Unlock,
    Event::Restart,
    Event::Wait(1_000),
    Event::Wait(62_000),
    Event::Switch,
    Event::Close,
    Event::GiveUp,
    Event::Join,
    Event::Retire,
];

/// The use of a node until now.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Use {
    /// Whether the node has voted, or a renewal has shown that a quorum exists.
    is_in_use: bool,
    last_vote: u64,
    /// The time until which the node may not vote, because it stands in for a node that may have voted until now.
    silent_until: u64,
    /// Whether the node is retired, so that it may not vote any more.
    is_retired: bool,
}

/// Tries every sequence of this number of events. Returns the first sequence that breaks a rule as an error.
fn search(node: &Node, path: &mut Vec<Event>, used: Use, left: usize) -> Result<(), String> {
    if left == 0 {
        return Ok(());
    }
    for event in EVENTS {
        let mut next = node.clone();
        path.push(event);
        let next_used =
            next_use(node, &mut next, event, used).map_err(|problem| format!("{problem}: {path:?}"))?;
        // Without an effect of the event, the search has tried the later events already, in a shorter sequence.
        if !(next.is_like(node) && next_used == used) {
            search(&next, path, next_used, left - 1)?;
        }
        path.pop();
    }
    Ok(())
}

/// Applies an event to a node, and checks the rules.
fn next_use(before: &Node, node: &mut Node, event: Event, used: Use) -> Result<Use, &'static str> {
    let Use { mut is_in_use, mut last_vote, mut silent_until, mut is_retired } = used;
    let votes_in_time = |node: &Node| {
        if is_retired {
            return Err("a retired node voted");
        }
        if node.fixture.milliseconds < silent_until {
            return Err("a node voted although it stands in for a node whose votes it does not have");
        }
        Ok(())
    };
    match event {
        Event::Register(new_nodes) => drop(node.try_register(new_nodes)),
        Event::Init => {
            if matches!(node.init(), Answer::Registered(_)) && is_in_use {
                return Err("init admitted a node in use");
            }
        }
        Event::Lock => {
            if let Answer::Granted { vote } = node.ask(&lock("a", "me", 5000, 0)) {
                // A repeated lock gets the vote of the first lock.
                votes_in_time(node)?;
                let is_repeated_lock = before.fixture.lease_id_of("a").is_some() && vote == last_vote;
                if vote <= last_vote && !is_repeated_lock {
                    return Err("a vote was repeated");
                }
                (is_in_use, last_vote) = (true, vote);
            }
        }
        Event::WriteBack => {
            if node.ask(&write_back("a", "me", last_vote)) == Answer::WrittenBack {
                votes_in_time(node)?;
                is_in_use = true;
            }
        }
        Event::Renew => {
            let answer = node.ask(&renew("a", "me", 1, 5000, last_vote));
            let is_renewed = matches!(answer, Answer::Renewed { .. } | Answer::RenewedInQuarantine(_));
            is_in_use |= is_renewed || matches!(answer, Answer::WrongQuorum { .. });
        }
        Event::Unlock => drop(node.ask(&unlock("a", "me", true, false))),
        Event::Restart => node.restart(),
        Event::Wait(milliseconds) => node.fixture.milliseconds += milliseconds,
        Event::Switch => node.is_other = !node.is_other,
        Event::Close => drop(node.ask(&Operation::Reconfigure(node.close()))),
        Event::GiveUp => {
            let Reconfigure { from, to, .. } = node.close();
            node.ask(&Operation::Reconfigure(Reconfigure { from: to, to: from, record: None }));
        }
        Event::Join => {
            let step = node.join();
            let opens = step.begins_quarantine();
            if matches!(node.ask(&Operation::Reconfigure(step)), Answer::Registered(_)) && opens {
                let lasts = u64::try_from(parameters().quarantine.lasts.as_millis()).unwrap();
                silent_until = node.fixture.milliseconds + lasts;
            }
        }
        Event::Retire => {
            let retired = node.ask(&Operation::Reconfigure(node.retire()));
            is_retired |= matches!(retired, Answer::Registered(_));
        }
    }
    Ok(Use { is_in_use, last_vote, silent_until, is_retired })
}

/// No event deletes all data of the node. A client cannot detect this loss, so the administrator is responsible for it.
#[test]
fn no_sequence_of_six_events_admits_a_voter_or_repeats_a_vote() {
    let result = search(&Node::new(), &mut Vec::new(), Use::default(), 6);
    assert_eq!(result, Ok(()));
}

#[test]
fn six_events_detect_a_broken_rule_of_admission() {
    for rule in [
        Mutation::TakeOverVoter,
        Mutation::IgnoreForeignRenewal,
        Mutation::NewAfterGiveUp,
        Mutation::JoinWithoutQuarantine,
    ] {
        let _broken = break_rule(Some(rule));
        assert!(
            search(&Node::new(), &mut Vec::new(), Use::default(), 6).is_err(),
            "{rule:?} was not detected"
        );
    }
}

#[test]
fn a_second_registration_in_the_same_incarnation_begins_no_quarantine() {
    let mut node = Node::in_first_quarantine();
    node.fixture.milliseconds += 61_001;
    assert_eq!(node.register(NewNodes::Quarantine), None);
}

#[test]
fn a_refused_renewal_changes_nothing_at_a_node_outside_of_quarantine() {
    let mut node = Node::in_first_quarantine();
    node.fixture.milliseconds += 61_001;
    node.is_other = true;
    let before = node.fixture.state.clone();
    let refused = node.ask(&renew("a", "me", 1, 5000, START));
    assert!(matches!(refused, Answer::WrongQuorum { .. }), "{refused:?}");
    assert_eq!(node.fixture.state, before);
}
