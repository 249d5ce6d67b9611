//! The first registration of a connection, and further ones when the server may have changed.

use super::{duplicate_servers::ServerRegistration, fake::registered, *};
use crate::{
    lock::tests::traces::Traces,
    node::{Abstention, Registration},
    values::Fingerprint,
};

impl Fixture {
    /// Returns a node that has registered.
    async fn registered() -> Self {
        let fixture = Self::registering(DialBehaviour::Accepting, Some(NewNodes::Quarantine));
        fixture.pass(1).await;
        assert_eq!(fixture.fake.sent_texts(), ["register", "registered in first incarnation"]);
        fixture
    }

    /// Returns a node that answers the registration like this.
    async fn answering(answer: Answer) -> Self {
        let fixture = Self::registering(DialBehaviour::Refusing, Some(NewNodes::Quarantine));
        fixture.fake.set_registration(answer);
        fixture.fake.set_dial_behaviour(DialBehaviour::Accepting);
        fixture.pass(200).await;
        fixture
    }

    /// Registers this incarnation for another node of the same client.
    fn register_other(&self, incarnation: &str) -> Result<ServerRegistration, NodeError> {
        self.connected_servers.register(&"other".into(), &incarnation.into())
    }

    fn refusal(&self) -> NodeError {
        match error(self.lock(1)) {
            NodeError::Handshake(refused) => (*refused).clone(),
            other => other,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_wait_until_the_connection_has_registered() {
    let fixture = Fixture::registering(DialBehaviour::Accepting, Some(NewNodes::Quarantine));
    let reply = fixture.lock(1);
    assert_eq!(reply.await, [Answer::Granted { vote: 1 }]);
    assert_eq!(fixture.fake.sent_texts(), ["register", "registered in first incarnation", "lock 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_quorum_or_unknown_incarnation_gets_no_calls() {
    let theirs = Fingerprint::new("theirs");
    let fixture = Fixture::answering(Answer::WrongQuorum { fingerprint: theirs.clone() }).await;
    assert_eq!(fixture.refusal(), NodeError::WrongQuorum(theirs.as_str().into()));
    let fixture = Fixture::answering(Answer::Error(NodeError::RunIdForbidden)).await;
    assert_eq!(fixture.refusal(), NodeError::RunIdForbidden);
    assert!(!fixture.fake.sent_texts().contains(&"lock 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_node_with_a_wrong_clock_gets_no_calls() {
    let off = NodeError::ClockOff(Duration::from_secs(7200));
    let fixture = Fixture::answering(Answer::Error(off.clone())).await;
    assert_eq!(fixture.refusal(), off);
}

#[tokio::test(start_paused = true)]
async fn a_server_behind_two_addresses_of_one_client_has_one_vote() {
    let fixture = Fixture::registered().await;
    let taken = fixture.register_other("first incarnation");
    assert_eq!(
        taken.unwrap_err(),
        NodeError::SameServer { other: "fake:1".into(), incarnation: "first incarnation".into() }
    );
    let _moved = fixture.register_other("next incarnation").unwrap();
    fixture.fake.set_registration(registered("next incarnation"));
    fixture.fake.push_event(ConnectionEvent::Closed(NodeError::Disconnected));
    fixture.pass(200).await;
    assert!(matches!(fixture.refusal(), NodeError::SameServer { .. }));
    assert!(fixture.register_other("first incarnation").is_ok(), "the server is free again");
}

#[tokio::test(start_paused = true)]
async fn a_connection_registers_again_after_its_node_was_flushed() {
    let answers =
        [Abstention::NotRegistered].map(|why| [Answer::Abstains(why), Answer::RenewedInQuarantine(why)]);
    for answer in answers.into_iter().flatten() {
        let fixture = Fixture::registered().await;
        fixture.fake.answer_lock(answer.clone());
        assert_eq!(fixture.lock(1).await, [answer]);
        fixture.pass(1).await;
        assert_eq!(fixture.fake.sent_texts(), ["lock 1", "register", "registered in first incarnation"]);
        assert_eq!((fixture.fake.dials().len(), fixture.fake.connections()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_which_another_server_answers_is_replaced() {
    let fixture = Fixture::registered().await;
    fixture.fake.set_registration(registered("next incarnation"));
    fixture.fake.answer_lock(Answer::Abstains(Abstention::NotRegistered));
    drop(fixture.lock(1).await);
    fixture.pass(200).await;
    let sent_texts = [
        "lock 1",
        "register",
        "registered in next incarnation",
        "register",
        "registered in next incarnation",
    ];
    assert_eq!(fixture.fake.sent_texts(), sent_texts);
    assert_eq!((fixture.fake.dials().len(), fixture.fake.connections()), (2, 1));
}

/// Returns the warnings after a connection breaks, and the next one, this time later, gets this answer to its
/// registration.
async fn warned_of(away: Duration, answer: Answer) -> Vec<String> {
    let fixture = Fixture::registered().await;
    let traces = Traces::begin();
    fixture.fake.set_registration(answer);
    fixture.fake.set_dial_behaviour(DialBehaviour::Refusing);
    fixture.fake.push_event(ConnectionEvent::Closed(NodeError::Disconnected));
    tokio::time::sleep(away).await;
    fixture.fake.set_dial_behaviour(DialBehaviour::Accepting);
    while fixture.fake.connections() == 0 {
        fixture.pass(1).await;
    }
    fixture.pass(1).await;
    traces.warned()
}

#[tokio::test(start_paused = true)]
async fn a_change_of_server_without_a_quarantine_is_warned_of() {
    let soon = Duration::from_millis(1);
    let warned = warned_of(soon, registered("next incarnation")).await;
    assert!(matches!(&warned[..], [one] if one.starts_with("another server answers")), "{warned:?}");
    assert!(warned_of(soon, registered("first incarnation")).await.is_empty(), "the same server");
    let quarantined =
        Registration { incarnation: Some("next incarnation".into()), quarantine: Some(QUARANTINE) };
    assert!(warned_of(soon, Answer::Registered(quarantined)).await.is_empty(), "it was restarted");
    assert!(
        warned_of(QUARANTINE, registered("next incarnation")).await.is_empty(),
        "it may have been, long ago"
    );
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_script_is_registered_before_further_calls() {
    let fixture = Fixture::registered().await;
    fixture.fake.freeze();
    let reply = fixture.lock(1);
    fixture.pass(1).await;
    fixture.fake.revive();
    fixture.fake.lose_script();
    fixture.pass(1).await;
    fixture.fake.push_event(ConnectionEvent::Loaded);
    assert_eq!(reply.await, [Answer::Granted { vote: 1 }]);
    assert_eq!(
        fixture.fake.sent_texts(),
        ["lock 1", "register", "load", "registered in first incarnation", "lock 1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_to_a_replica_is_given_up() {
    let fixture = Fixture::registered().await;
    fixture.fake.answer_lock(Answer::Error(NodeError::ReadOnly));
    assert_eq!(error_of(fixture.lock(1).await), NodeError::ReadOnly);
    fixture.fake.set_registration(Answer::Error(NodeError::ReadOnly));
    fixture.pass(200).await;
    assert_eq!(fixture.refusal(), NodeError::ReadOnly);
    fixture.fake.set_registration(registered("next incarnation"));
    fixture.pass(2_000).await;
    assert_eq!(fixture.lock(2).await, [Answer::Granted { vote: 1 }]);
}
