//! What a connection says before any call, and again when the node may have become another one.

use super::{duplicate_servers::ServerRegistration, fake::registered, *};
use crate::{
    lock::tests::traces::Traces,
    node::{Abstention, Registration},
    values::Fingerprint,
};

impl Scene {
    /// A node that answers registrations, with some time to do it.
    async fn registered() -> Self {
        let scene = Self::registering(Door::Open, Some(NewNodes::Quarantine));
        scene.pass(1).await;
        assert_eq!(scene.fake.told(), ["register", "registered in first incarnation"]);
        scene
    }

    /// A node that answers the registration so.
    async fn answering(answer: Answer) -> Self {
        let scene = Self::registering(Door::Refusing, Some(NewNodes::Quarantine));
        scene.fake.set_registration(answer);
        scene.fake.set_door(Door::Open);
        scene.pass(200).await;
        scene
    }

    /// Another node of the same client leads to this incarnation.
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
    let scene = Scene::registering(Door::Open, Some(NewNodes::Quarantine));
    let reply = scene.lock(1);
    assert_eq!(reply.await, [Answer::Granted { vote: 1 }]);
    assert_eq!(scene.fake.told(), ["register", "registered in first incarnation", "lock 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_of_another_quorum_or_whose_incarnation_is_not_to_be_known_takes_no_calls() {
    let theirs = Fingerprint::new("theirs");
    let scene = Scene::answering(Answer::WrongQuorum { fingerprint: theirs.clone() }).await;
    assert_eq!(scene.refusal(), NodeError::WrongQuorum(theirs.as_str().into()));
    let scene = Scene::answering(Answer::Error(NodeError::RunIdForbidden)).await;
    assert_eq!(scene.refusal(), NodeError::RunIdForbidden);
    assert!(!scene.fake.told().contains(&"lock 1".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_is_off_takes_no_calls() {
    let off = NodeError::ClockOff(Duration::from_secs(7200));
    let scene = Scene::answering(Answer::Error(off.clone())).await;
    assert_eq!(scene.refusal(), off);
}

#[tokio::test(start_paused = true)]
async fn a_server_behind_two_addresses_of_one_client_has_one_vote() {
    let scene = Scene::registered().await;
    let taken = scene.register_other("first incarnation");
    assert_eq!(
        taken.unwrap_err(),
        NodeError::SameServer { other: "fake:1".into(), incarnation: "first incarnation".into() }
    );
    let _moved = scene.register_other("next incarnation").unwrap();
    scene.fake.set_registration(registered("next incarnation"));
    scene.fake.say(ConnectionEvent::Closed(NodeError::Disconnected));
    scene.pass(200).await;
    assert!(matches!(scene.refusal(), NodeError::SameServer { .. }));
    assert!(scene.register_other("first incarnation").is_ok(), "the server is free again");
}

#[tokio::test(start_paused = true)]
async fn a_connection_whose_node_was_flushed_registers_again_at_once_and_lives_on() {
    let answers =
        [Abstention::NotRegistered].map(|why| [Answer::Abstains(why), Answer::RenewedInQuarantine(why)]);
    for answer in answers.into_iter().flatten() {
        let scene = Scene::registered().await;
        scene.fake.answer_lock(answer.clone());
        assert_eq!(scene.lock(1).await, [answer]);
        scene.pass(1).await;
        assert_eq!(scene.fake.told(), ["lock 1", "register", "registered in first incarnation"]);
        assert_eq!((scene.fake.dials().len(), scene.fake.connections()), (1, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_on_which_another_server_answers_is_replaced() {
    let scene = Scene::registered().await;
    scene.fake.set_registration(registered("next incarnation"));
    scene.fake.answer_lock(Answer::Abstains(Abstention::NotRegistered));
    drop(scene.lock(1).await);
    scene.pass(200).await;
    let told = [
        "lock 1",
        "register",
        "registered in next incarnation",
        "register",
        "registered in next incarnation",
    ];
    assert_eq!(scene.fake.told(), told);
    assert_eq!((scene.fake.dials().len(), scene.fake.connections()), (2, 1));
}

/// What is warned of when the connection breaks, and so long after it another leads to a node that
/// answers so.
async fn warned_of(away: Duration, answer: Answer) -> Vec<String> {
    let scene = Scene::registered().await;
    let traces = Traces::begin();
    scene.fake.set_registration(answer);
    scene.fake.set_door(Door::Refusing);
    scene.fake.say(ConnectionEvent::Closed(NodeError::Disconnected));
    tokio::time::sleep(away).await;
    scene.fake.set_door(Door::Open);
    while scene.fake.connections() == 0 {
        scene.pass(1).await;
    }
    scene.pass(1).await;
    traces.warned()
}

#[tokio::test(start_paused = true)]
async fn a_connection_to_another_server_that_is_in_no_quarantine_is_warned_of() {
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
async fn a_node_that_has_lost_the_script_is_registered_again_before_anything_else() {
    let scene = Scene::registered().await;
    scene.fake.freeze();
    let reply = scene.lock(1);
    scene.pass(1).await;
    scene.fake.revive();
    scene.fake.lose_script();
    scene.pass(1).await;
    scene.fake.say(ConnectionEvent::Loaded);
    assert_eq!(reply.await, [Answer::Granted { vote: 1 }]);
    assert_eq!(
        scene.fake.told(),
        ["lock 1", "register", "load", "registered in first incarnation", "lock 1"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_connection_to_a_replica_is_given_up() {
    let scene = Scene::registered().await;
    scene.fake.answer_lock(Answer::Error(NodeError::ReadOnly));
    assert_eq!(fault_of(scene.lock(1).await), NodeError::ReadOnly);
    scene.fake.set_registration(Answer::Error(NodeError::ReadOnly));
    scene.pass(200).await;
    assert_eq!(scene.refusal(), NodeError::ReadOnly);
    scene.fake.set_registration(registered("next incarnation"));
    scene.pass(2_000).await;
    assert_eq!(scene.lock(2).await, [Answer::Granted { vote: 1 }]);
}
