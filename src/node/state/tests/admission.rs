//! `init`, which admits nodes of a new quorum without a quarantine, and refuses nodes that may have
//! voted.

use super::*;
use crate::node::{
    Abstention, Init, NewNodes, QuorumParameters, Reconfigure, Register, Registration, RestartGuard,
};

/// A node, and a client that has registered in the node's present incarnation.
#[derive(Clone)]
struct Node {
    fixture: Fixture,
    guard: RestartGuard,
    incarnations: u32,
}

impl Node {
    fn new() -> Self {
        Self { fixture: Fixture::new(), guard: RestartGuard::PerConnection, incarnations: 0 }
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
            incarnation: Some(self.incarnation().as_str().into()),
            ..parameters()
        };
        self.fixture.state.apply(&guarded, operation, self.fixture.now()).answer
    }

    fn register(&mut self, new_nodes: NewNodes) -> Option<Duration> {
        let time = self.fixture.now().since_epoch();
        match self.ask(&Operation::Register(Register { new_nodes, time })) {
            Answer::Registered(registration) => registration.quarantine,
            other => panic!("{other:?}"),
        }
    }

    fn init(&mut self) -> Answer {
        self.init_at(false, self.fixture.now().since_epoch())
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
    let answer = node.init_at(true, now);
    assert!(is_admitted(&answer), "{answer:?}");
    assert_eq!(node.fixture.state, before);
    node.init();
    assert_eq!(node.init_at(true, now), Answer::AlreadyRegistered { fingerprint: parameters().fingerprint });
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
    type History = fn(&mut Node);
    let cases: [(&str, History); 5] = [
        ("after its quarantine", |node| node.fixture.milliseconds += 62_000),
        ("after a restart without a registration", Node::restart),
        ("in the second quarantine, after a restart", |node| {
            node.restart();
            assert!(node.register(NewNodes::Quarantine).is_some());
        }),
        ("after a reconfiguration", |node| {
            let same = parameters().fingerprint;
            node.ask(&Operation::Reconfigure(Reconfigure { from: same.clone(), to: same }));
        }),
        ("admitted by its first client", |node| {
            *node = Node::new();
            assert_eq!(node.register(NewNodes::Admit), None);
        }),
    ];
    for (case, history) in cases {
        let mut node = Node::in_first_quarantine();
        history(&mut node);
        assert_eq!(
            node.init(),
            Answer::AlreadyRegistered { fingerprint: parameters().fingerprint },
            "{case}"
        );
    }
}

#[test]
fn init_refuses_a_new_node_of_another_quorum() {
    let mut node = Node::in_first_quarantine();
    let other = QuorumParameters { fingerprint: Fingerprint::new("other"), ..parameters() };
    let init = Operation::Init(Init { is_dry_run: false, time: node.fixture.now().since_epoch() });
    let answer = node.fixture.state.apply(&other, &init, node.fixture.now()).answer;
    assert_eq!(answer, Answer::AlreadyRegistered { fingerprint: parameters().fingerprint });
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
        assert_eq!(node.init_at(is_dry_run, now + gap), Answer::Error(NodeError::ClockOff(gap)));
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
}

const EVENTS: [Event; 11] = [
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
];

/// Applies all sequences of `left` events to the node.
fn search(node: &Node, path: &mut Vec<Event>, is_in_use: bool, last_vote: u64, left: usize) {
    if left == 0 {
        return;
    }
    for event in EVENTS {
        let mut next = node.clone();
        let (mut is_in_use, mut last_vote) = (is_in_use, last_vote);
        path.push(event);
        match event {
            Event::Register(new_nodes) => drop(next.register(new_nodes)),
            Event::Init => {
                if matches!(next.init(), Answer::Registered(_)) {
                    assert!(!is_in_use, "a node was admitted after a vote or a renewal: {path:?}");
                }
            }
            Event::Lock => {
                if let Answer::Granted { vote } = next.ask(&lock("a", "me", 5000, 0)) {
                    // A repeated lock gets the vote that it got before.
                    let is_resend = node.fixture.lease_id_of("a").is_some() && vote == last_vote;
                    assert!(vote > last_vote || is_resend, "a vote was given twice: {path:?}");
                    (is_in_use, last_vote) = (true, vote);
                }
            }
            Event::WriteBack => {
                is_in_use |= next.ask(&write_back("a", "me", last_vote)) == Answer::WrittenBack;
            }
            Event::Renew => {
                let answer = next.ask(&renew("a", "me", 1, 5000, last_vote));
                is_in_use |= matches!(answer, Answer::Renewed { .. } | Answer::RenewedInQuarantine(_));
            }
            Event::Unlock => drop(next.ask(&unlock("a", "me", true, false))),
            Event::Restart => next.restart(),
            Event::Wait(milliseconds) => next.fixture.milliseconds += milliseconds,
        }
        search(&next, path, is_in_use, last_vote, left - 1);
        path.pop();
    }
}

/// All sequences of six events. No event deletes all data of a node unnoticed: the administrator
/// who calls `init` excludes that.
#[test]
fn no_sequence_of_events_admits_a_node_after_a_vote_or_repeats_a_vote() {
    search(&Node::new(), &mut Vec::new(), false, 0, 6);
}
