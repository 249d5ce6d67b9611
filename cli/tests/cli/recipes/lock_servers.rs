//! The files that start the servers of a quorum: the compose files, and the manifest of servers beside a Redis Cluster.

use redquorum_tests::ServerOptions;
use serde_json::Value;

use super::{super::redquorum::json, kubernetes::assert_no_privileges, *};

/// The quarantine of a node with the default settings, rounded up.
const QUARANTINE_SECONDS: u64 = 61;

/// The checks of the doctor whose results depend on the load of this machine.
const CHECKS_OF_TIME: [&str; 4] = ["latency", "clock", "clocks", "drift"];

/// Returns the texts of a list.
fn texts(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// Returns the options of a server with these arguments: a name that begins with `--` and one value each.
fn options(arguments: &[&str]) -> ServerOptions {
    arguments.chunks(2).fold(ServerOptions::default().keeping_data(), |options, argument| {
        let [name, value] = argument else { panic!("an argument without a value: {arguments:?}") };
        options.config(name.strip_prefix("--").unwrap(), value)
    })
}

/// Checks that servers with these options become a quorum, of which the doctor says only that they share a machine.
async fn assert_sound(count: usize, options: ServerOptions) {
    let cluster = Cluster::start_with(count, options).await;
    let init = output(command_on(&cluster, ["init", "--if-needed"])).await;
    assert_eq!(exit_code(&init), 0, "{}", stderr(&init));
    let doctor = output(command_on(&cluster, ["--json", "doctor", "--all", "--watch", "0"])).await;
    assert_eq!(exit_code(&doctor), 0, "{}", stdout(&doctor));
    let findings = json(&doctor);
    let warned = findings.iter().filter(|finding| finding["level"] == "warn");
    let mut warned: Vec<&str> = warned.map(|finding| finding["check"].as_str().unwrap()).collect();
    warned.retain(|check| !CHECKS_OF_TIME.contains(check));
    assert_eq!(warned, ["machines"], "{}", stdout(&doctor));
}

#[tokio::test]
async fn servers_of_the_compose_files_are_a_sound_quorum() {
    for (file, count) in [("compose.yaml", 5), ("beside-cluster.yaml", 3)] {
        let file: Value = serde_saphyr::from_str(&recipe(&format!("../../compose/{file}"))).unwrap();
        let mut servers = file["services"].as_object().unwrap().clone();
        let command = servers.remove("redquorum").unwrap();
        let names: Vec<&str> = servers.keys().map(String::as_str).collect();
        assert_eq!(texts(&command["depends_on"]), names);
        let urls: Vec<String> = names.iter().map(|name| format!("redis://{name}")).collect();
        assert_eq!(command["environment"]["REDQUORUM_NODES"], urls.join(","));
        assert_eq!(names.len(), count);

        let words = texts(&servers[names[0]]["command"]);
        assert!(servers.values().all(|server| texts(&server["command"]) == words));
        assert_eq!(words[0], "redis-server");
        assert_sound(count, options(&words[1..])).await;
    }
}

#[tokio::test]
async fn servers_of_the_manifest_are_a_sound_quorum() {
    let file = recipe("lock-servers.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(&file).unwrap();
    let [service, budget, set] = ["Service", "PodDisruptionBudget", "StatefulSet"]
        .map(|kind| &objects.iter().find(|object| object["kind"] == kind).unwrap()["spec"]);
    let pod = &set["template"];
    let labels = &pod["metadata"]["labels"];
    assert_eq!(set["selector"]["matchLabels"], *labels);
    assert_eq!(service["selector"], *labels);
    assert_eq!((&budget["selector"]["matchLabels"], &budget["maxUnavailable"]), (labels, &1.into()));

    // The comment names each pod, and never the Service, which leads to all pods.
    let name = |kind: &str| {
        let object = objects.iter().find(|object| object["kind"] == kind).unwrap();
        object["metadata"]["name"].as_str().unwrap().to_owned()
    };
    let (set_name, service_name) = (name("StatefulSet"), name("Service"));
    assert_eq!(set["serviceName"], service_name);
    assert_eq!(service["clusterIP"], "None");
    let count = usize::try_from(set["replicas"].as_u64().unwrap()).unwrap();
    let urls: Vec<String> =
        (0..count).map(|number| format!("redis://{set_name}-{number}.{service_name}:6379")).collect();
    let with_comments = std::fs::read_to_string(recipe_path("lock-servers.yaml")).unwrap();
    assert!(with_comments.contains(&urls.join(",")), "the comment does not name {urls:?}");

    // Each machine has at most one server. A server counts as ready after its quarantine, and clients reach it before.
    let apart =
        &pod["spec"]["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
    assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
    assert_eq!(apart["labelSelector"]["matchLabels"], *labels);
    let container = &pod["spec"]["containers"][0];
    assert!(container["readinessProbe"]["initialDelaySeconds"].as_u64().unwrap() > QUARANTINE_SECONDS);
    assert_eq!(service["publishNotReadyAddresses"], true);
    assert_no_privileges(&pod["spec"]);

    assert_eq!(texts(&container["command"]), ["redis-server"]);
    assert_sound(count, options(&texts(&container["args"]))).await;
}
