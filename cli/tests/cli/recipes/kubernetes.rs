//! The recipe for Kubernetes.

use redquorum::{
    __command::{connectors, parse_node_urls},
    Quorum,
};
use serde_json::Value;

use super::*;

const POD: &str = "scheduler-5d8f";

fn words(list: &Value, variables: &[(String, String)]) -> Vec<String> {
    let words = list.as_array().into_iter().flatten().map(|word| word.as_str().unwrap());
    words.map(|word| expanded(word, variables)).collect()
}

/// Replaces each `$(NAME)` by the value of the variable.
fn expanded(text: &str, variables: &[(String, String)]) -> String {
    let text = variables
        .iter()
        .fold(text.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value));
    assert!(!text.contains("$("), "a variable is not set: {text}");
    text
}

/// Returns the variables of a container, in order. The value of a variable may use earlier
/// variables.
fn variables(list: &Value) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for variable in list.as_array().unwrap() {
        let name = variable["name"].as_str().unwrap().to_owned();
        let value = match variable["valueFrom"]["fieldRef"]["fieldPath"].as_str() {
            Some(field) => {
                assert_eq!(field, "metadata.name");
                POD.to_owned()
            }
            None => expanded(variable["value"].as_str().unwrap(), &variables),
        };
        variables.push((name, value));
    }
    variables
}

/// Checks that a pod restricts its containers, in case an image runs as root or is compromised.
pub(super) fn assert_no_privileges(pod: &Value) {
    let user = &pod["securityContext"];
    assert_eq!(
        (&user["runAsNonRoot"], &user["seccompProfile"]["type"]),
        (&true.into(), &"RuntimeDefault".into())
    );
    // If the image names its user by name, a kubelet cannot verify that the user is not root.
    assert!(user["runAsUser"].as_u64().is_some_and(|user| user > 0), "{user}");
    let expected = serde_json::json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
    });
    for container in pod["containers"].as_array().unwrap() {
        assert_eq!(container["securityContext"], expected);
    }
    assert_eq!(pod["automountServiceAccountToken"], false);
}

#[test]
fn the_pod_drops_all_privileges() {
    let deployment: Value = serde_saphyr::from_str(&recipe("kubernetes.yaml")).unwrap();
    assert_no_privileges(&deployment["spec"]["template"]["spec"]);
}

#[tokio::test]
async fn a_pod_leads_and_is_ready_until_it_is_stopped() {
    let deployment: Value = serde_saphyr::from_str(&recipe("kubernetes.yaml")).unwrap();
    let pod = &deployment["spec"]["template"];
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"]);
    let container = &pod["spec"]["containers"][0];
    let mut variables = variables(&container["env"]);
    assert_variables_are_read(&variables, "elect").await;
    assert_no_label(&variables);

    let machine = Machine::new().await;
    let nodes = variables.iter_mut().find(|(name, _)| name == "REDQUORUM_NODES").unwrap();
    let builder = Quorum::builder().nodes(parse_node_urls(&nodes.1));
    assert_eq!(connectors(&builder).unwrap().len(), 3, "{}", nodes.1);
    nodes.1 = machine.cluster.urls().join(",");
    let command = [words(&container["command"], &variables), words(&container["args"], &variables)].concat();
    let probe = words(&container["readinessProbe"]["exec"]["command"], &variables);

    let not_ready = output(machine.command(&probe, &variables)).await;
    assert_eq!(exit_code(&not_ready), 80, "the pod is ready before it leads: {}", stderr(&not_ready));
    let leader = machine.command(&command, &variables).spawn().unwrap();
    machine.notes(1).await;
    let ready = output(machine.command(&probe, &variables)).await;
    assert_eq!(exit_code(&ready), 0, "{}", stderr(&ready));
    assert_eq!(machine.leader("scheduler").await, POD);
    let ended = machine.terminate_leader(leader).await;
    assert_eq!(exit_code(&ended), 128 + 15, "{}", stderr(&ended));
}
