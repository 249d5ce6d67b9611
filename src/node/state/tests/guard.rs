//! The restart guard: abstentions, registration and quarantine of nodes that may have lost votes.

use super::*;
use crate::{
    mutation::{Mutation, break_rule},
    node::{Abstention, Init, NewNodes, QuorumParameters, Reconfigure, Register, Registration, RestartGuard},
};

const NEXT_INCARNATION: &str = "next incarnation";

impl Fixture {
    /// Sends an operation over a connection that has registered in this incarnation.
    fn ask_in(&mut self, incarnation: &str, operation: &Operation) -> Answer {
        let guarded = QuorumParameters {
            guard: RestartGuard::PerConnection,
            incarnation: Some(incarnation.into()),
            ..parameters()
        };
        self.state.apply(&guarded, operation, self.now()).answer
    }

    fn ask_guarded(&mut self, operation: &Operation) -> Answer {
        self.ask_in("incarnation", operation)
    }

    /// Registers the node, and returns the rest of its quarantine.
    fn register(&mut self, new_nodes: NewNodes) -> Option<Duration> {
        match self.register_at(new_nodes, self.now().since_epoch()) {
            Answer::Registered(registration) => registration.quarantine,
            other => panic!("{other:?}"),
        }
    }

    /// Registers the node by a client with this time of day.
    fn register_at(&mut self, new_nodes: NewNodes, time: Duration) -> Answer {
        self.ask_guarded(&Operation::Register(Register { new_nodes, time }))
    }

    fn init(&mut self) -> Answer {
        let time = self.now().since_epoch();
        self.ask_guarded(&Operation::Init(Init { is_dry_run: false, time }))
    }

    fn restart(&mut self) {
        self.state.restart(NEXT_INCARNATION);
    }
}

#[test]
fn a_node_without_metadata_abstains_and_renews_until_it_is_registered() {
    let mut node = Fixture::new();
    let not_registered = Answer::Abstains(Abstention::NotRegistered);
    assert_eq!(node.ask_guarded(&lock("a", "me", 5000, 0)), not_registered);
    assert_eq!(node.ask_guarded(&write_back("a", "me", START)), not_registered);
    assert_eq!(
        node.ask_guarded(&renew("a", "me", 1, 5000, START + 7)),
        Answer::RenewedInQuarantine(Abstention::NotRegistered)
    );
    assert_eq!(node.lease_id_of("a").as_deref(), Some("me"));
    assert_eq!(node.register(NewNodes::Admit), None, "the client admits new nodes");
    assert_eq!(node.ask_guarded(&renew("a", "me", 1, 5000, START + 7)), Answer::Renewed { proves: false });
}

#[test]
fn a_node_in_quarantine_counts_renewals_before_it_grants_locks() {
    let mut node = Fixture::new();
    node.register(NewNodes::Admit);
    node.restart();
    let lasts = parameters().quarantine.lasts;
    assert_eq!(
        node.register(NewNodes::Admit),
        Some(lasts),
        "a node with metadata of another incarnation is not new"
    );
    assert_eq!(node.register(NewNodes::Admit), Some(lasts), "another registration changes nothing");
    let refused = |remaining| Answer::Abstains(Abstention::Quarantined(remaining));
    assert_eq!(node.ask_in(NEXT_INCARNATION, &lock("a", "me", 5000, 0)), refused(lasts));
    assert_eq!(
        node.ask_in(NEXT_INCARNATION, &renew("a", "me", 1, 500_000, START)),
        Answer::RenewedInQuarantine(Abstention::Quarantined(lasts))
    );
    assert_eq!(
        node.ask_in(NEXT_INCARNATION, &write_back("a", "me", START)),
        refused(lasts),
        "a node in quarantine abstains even for the holder"
    );
    node.milliseconds += 3_000;
    assert_eq!(
        node.ask_in(NEXT_INCARNATION, &renew("a", "me", 1, 500_000, START)),
        Answer::RenewedInQuarantine(Abstention::Quarantined(lasts - Duration::from_secs(3)))
    );
    node.milliseconds += 1;
    assert!(matches!(
        node.ask_in(NEXT_INCARNATION, &renew("a", "me", 1, 500_000, START)),
        Answer::Renewed { .. }
    ));
    node.milliseconds += 58_000;
    assert!(matches!(node.ask_in(NEXT_INCARNATION, &lock("b", "other", 5000, 0)), Answer::Granted { .. }));
}

#[test]
fn a_restarted_node_gives_votes_above_all_earlier_votes() {
    let mut node = Fixture::new();
    node.register(NewNodes::Admit);
    let Answer::Granted { vote: before } = node.ask_guarded(&lock("a", "me", 5000, 0)) else { panic!() };
    node.restart();
    node.register(NewNodes::Quarantine);
    // The counter was restored from an older backup.
    node.set_counter("a", 3);
    node.ask_in(NEXT_INCARNATION, &unlock("a", "me", true, false));
    node.milliseconds += 62_000;
    let vote = |node: &mut Fixture| match node.ask_in(NEXT_INCARNATION, &lock("a", "other", 5000, 0)) {
        Answer::Granted { vote } => vote,
        other => panic!("{other:?}"),
    };
    let without_minimum = {
        let _broken = break_rule(Some(Mutation::VoteBelowMinimum));
        vote(&mut Fixture { state: node.state.clone(), notices: Vec::new(), ..node })
    };
    assert!(without_minimum <= before, "only the minimum token prevents a repeated vote");
    assert!(vote(&mut node) > before);
}

/// The process of `one` pauses between its lock and its write-back. Meanwhile, another lease gets the token, and the
/// node is restored from a backup with the key of `one`. The clock of the node is set back by an hour, so that the key
/// outlives the quarantine.
#[test]
fn a_token_that_a_forgotten_lease_had_is_not_written_back() {
    // A counter that began eleven days ago is below the minimum token, even after the clock was set back.
    let token = START - 1_000_000_000_000 + 2;
    for resource in ["a", "*a"] {
        let mut node = Fixture::new();
        node.register(NewNodes::Admit);
        node.set_counter("a", token - 2);
        assert_eq!(node.ask_guarded(&lock(resource, "one", 60_000, 0)), granted(token - 1));
        let backup = node.state.clone();
        node.milliseconds += 60_001;
        assert_eq!(node.ask_guarded(&lock("a", "two", 60_000, 0)), granted(token));
        node.state = backup;
        node.milliseconds -= 3_600_000;
        node.restart();
        let lasts = node.register(NewNodes::Quarantine).unwrap();
        node.milliseconds += u64::try_from(lasts.as_millis()).unwrap() + 1;
        let write_back = write_back(resource, "one", token);
        let before = node.state.clone();
        let refused = Answer::NotWrittenBack { counter: token - 1 };
        assert_eq!(node.ask_in(NEXT_INCARNATION, &write_back), refused, "{resource}");
        assert_eq!(node.state, before);
        let _broken = break_rule(Some(Mutation::WriteBackBelowMinimum));
        assert_eq!(
            node.ask_in(NEXT_INCARNATION, &write_back),
            Answer::WrittenBack,
            "{resource}: only this rule prevents the write-back"
        );
    }
}

#[test]
fn a_renewal_does_not_count_early_in_quarantine_or_without_metadata() {
    let in_quarantine = Abstention::Quarantined(parameters().quarantine.lasts);
    let cases = [
        (Mutation::CountInQuarantine, in_quarantine),
        (Mutation::CountWithoutMetadata, Abstention::NotRegistered),
    ];
    for (mutation, abstention) in cases {
        let mut node = Fixture::new();
        if abstention == in_quarantine {
            node.register(NewNodes::Quarantine);
        }
        let renewal = renew("a", "me", 1, 5000, START);
        assert_eq!(node.ask_guarded(&renewal), Answer::RenewedInQuarantine(abstention));
        let _broken = break_rule(Some(mutation));
        assert!(
            matches!(node.ask_guarded(&renewal), Answer::Renewed { .. }),
            "only this rule prevents a counted renewal"
        );
    }
}

#[test]
fn a_connection_to_another_incarnation_is_not_registered() {
    let mut node = Fixture::new();
    node.register(NewNodes::Admit);
    assert!(matches!(node.ask_guarded(&lock("a", "me", 5000, 0)), Answer::Granted { .. }));
    // The node has the data and the metadata of another node, as after the promotion of a replica.
    let metadata = NodeMetadata {
        incarnation: "another".into(),
        minimum_token: 0,
        fingerprint: parameters().fingerprint,
        replacements: "".into(),
    };
    node.state.set_metadata(Some(metadata));
    assert_eq!(node.ask_guarded(&lock("b", "me", 5000, 0)), Answer::Abstains(Abstention::NotRegistered));
    assert!(
        node.register(NewNodes::Quarantine).is_some(),
        "a node that may have voted before gets a quarantine"
    );
}

#[test]
fn init_admits_a_node_without_metadata() {
    let mut node = Fixture::new();
    assert!(matches!(node.init(), Answer::Registered(Registration { quarantine: None, .. })));
    assert_eq!(node.init(), Answer::AlreadyRegistered { fingerprint: parameters().fingerprint });
    assert!(matches!(node.ask_guarded(&lock("a", "me", 5000, 0)), Answer::Granted { .. }));
}

#[test]
fn a_node_between_two_configurations_votes_for_neither() {
    let (old, new) = (parameters().fingerprint, Fingerprint::new("new"));
    let [closed, closed_again] = ["1", "2"].map(|closing| new.closed_by(&old, closing));
    let for_good = new.closed_for_good_by(&old, "1");
    let change = |from: &Fingerprint, to: &Fingerprint| {
        Operation::Reconfigure(Reconfigure { from: from.clone(), to: to.clone(), record: None })
    };
    let wrong_quorum = |fingerprint: &Fingerprint| Answer::WrongQuorum { fingerprint: fingerprint.clone() };
    let mut node = Fixture::new();
    assert_eq!(node.ask(&change(&old, &closed)), Answer::Abstains(Abstention::NotRegistered));
    node.init();
    assert!(matches!(node.ask(&change(&old, &closed)), Answer::Registered(_)));
    assert!(matches!(node.ask(&change(&old, &closed)), Answer::Registered(_)), "a repeated change succeeds");
    assert_eq!(node.ask(&change(&old, &closed_again)), wrong_quorum(&closed));
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), wrong_quorum(&closed));
    assert!(matches!(node.ask(&change(&closed, &old)), Answer::Registered(_)), "the move is cancelled");
    assert!(matches!(node.ask(&change(&old, &closed_again)), Answer::Registered(_)));
    assert_eq!(node.ask(&change(&closed, &for_good)), wrong_quorum(&closed_again));
    assert!(matches!(node.ask(&change(&closed_again, &for_good)), Answer::Registered(_)));
    assert_eq!(node.ask(&change(&closed_again, &old)), wrong_quorum(&for_good));
    assert_eq!(node.ask(&lock("a", "me", 5000, 0)), wrong_quorum(&for_good));
    assert!(matches!(node.ask(&change(&for_good, &new)), Answer::Registered(_)));
    assert_eq!(node.ask(&change(&old, &closed)), wrong_quorum(&new));
    let renamed = QuorumParameters { fingerprint: new, ..parameters() };
    assert!(matches!(
        node.state.apply(&renamed, &lock("a", "me", 5000, 0), node.now()).answer,
        Answer::Granted { .. }
    ));
}

#[test]
fn a_registration_is_refused_if_the_clocks_differ_by_more_than_an_hour() {
    const HOUR: Duration = Duration::from_secs(3600);
    let mut node = Fixture::new();
    let now = node.now().since_epoch();
    for (time, is_node_ahead) in [(now + 2 * HOUR, false), (now - 2 * HOUR, true)] {
        let before = node.state.clone();
        let clock_off = NodeError::ClockOff { gap: 2 * HOUR, is_node_ahead };
        assert_eq!(node.register_at(NewNodes::Quarantine, time), Answer::Error(clock_off));
        assert_eq!(node.state, before, "a refused registration has raised the minimum token");
    }
    assert!(matches!(node.register_at(NewNodes::Quarantine, now + HOUR), Answer::Registered(_)));
}
