//! Names of resources and values of leaders with arbitrary bytes, in JSON, as arguments, and in suggested commands.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt};

use redquorum::{Quorum, admin};
use redquorum_tests::{Cluster, eventually};
use serde_json::Value;

use super::{
    pty::Pty,
    redquorum::{TIME_LIMIT, command_on, exit_code, json, output, stderr, stdout},
};

/// Names, and their quoted forms for a shell.
const NAMES: [(&[u8], &str); 16] = [
    (b"job:1", "job:1"),
    (b"two words", "'two words'"),
    (b"it's", "\"it's\""),
    (b"it's $HOME", "\"it's \"'$HOME'"),
    (b"$(reboot)", "'$(reboot)'"),
    (b"`reboot`", "'`reboot`'"),
    (b"a!b", "'a!b'"),
    (b"back\\slash", "\"back\\\\slash\""),
    (b"--yes", "-- --yes"),
    (b"-n 1", "-- '-n 1'"),
    (b"*", "'*'"),
    (b"two\nlines", "$'two\\nlines'"),
    (b"\x1b[31mred", "$'\\x1B[31mred'"),
    ("漢字".as_bytes(), "'漢字'"),
    (b"a\xff", "$'a\\xFF'"),
    (b"a\xfe", "$'a\\xFE'"),
];

/// Starts an initialised node, and connects a client.
async fn cluster_with_client() -> (Cluster, Quorum) {
    let cluster = Cluster::start(1).await;
    let builder = || Quorum::builder().nodes(cluster.urls());
    admin::init(&builder()).await.unwrap();
    let quorum = builder().connect().await.unwrap();
    (cluster, quorum)
}

/// Returns the bytes of the resource that a JSON object names.
fn name_of(object: &Value) -> Vec<u8> {
    let Some(hex) = object.get("resource_hex") else {
        return object["resource"].as_str().unwrap().as_bytes().to_vec();
    };
    assert_eq!(object["resource"], Value::Null, "{object}");
    let digits = hex.as_str().unwrap().as_bytes();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[tokio::test]
async fn each_name_is_printed_in_json_without_loss() {
    let (cluster, quorum) = cluster_with_client().await;
    let mut held = Vec::new();
    for (name, _) in NAMES {
        held.push(quorum.red_lock(name).lock().await.unwrap());
    }
    let slot = quorum.semaphore(b"gpu\xff", 1).acquire().await.unwrap();
    let listed = json(&output(command_on(&cluster, ["--json", "list"])).await).remove(0);
    let locks = listed["locks"].as_array().unwrap();
    let mut found: Vec<Vec<u8>> = locks.iter().map(name_of).collect();
    let mut expected: Vec<Vec<u8>> = NAMES.iter().map(|(name, _)| name.to_vec()).collect();
    expected.push(b"gpu\xff".to_vec());
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    for lock in locks {
        let name = name_of(lock);
        let mut inspect = command_on(&cluster, ["--json", "inspect"]);
        if !lock["slot"].is_null() {
            inspect.args(["-n", "1"]);
        }
        let inspected = output({
            inspect.arg("--").arg(OsStr::from_bytes(&name));
            inspect
        })
        .await;
        assert_eq!(exit_code(&inspected), 0, "{}", stderr(&inspected));
        let object = &json(&inspected)[0];
        assert_eq!((name_of(object), &object["state"]), (name, &"held".into()), "{object}");
    }
    let mut unlock = command_on(&cluster, ["--json", "force-unlock", "--yes"]);
    unlock.arg(OsStr::from_bytes(b"a\xff"));
    let unlocked = &json(&output(unlock).await)[0];
    assert_eq!(name_of(&unlocked["before"]), b"a\xff");
    slot.release().await.unwrap();
}

/// A user may give a url in place of a name.
#[tokio::test]
async fn a_name_is_shown_so_that_it_can_be_copied_but_without_a_password() {
    let cluster = Cluster::start(1).await;
    for (name, shown) in
        [("it's", "it's"), ("a \"b\"", "a \"b\""), ("redis://me:secret@host:6379", "redis://***@host:6379")]
    {
        let run = output(command_on(&cluster, ["run", name, "--quorum-timeout", "0s", "-c", "true"])).await;
        let inspect = output(command_on(&cluster, ["inspect", name])).await;
        let text = stderr(&run) + &stdout(&inspect);
        assert!(text.contains(&format!("no quorum for {shown}: ")), "{text}");
        assert!(text.contains(&format!("{shown} is unclear")), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
}

#[tokio::test]
async fn the_value_of_a_leader_is_printed_without_loss() {
    let (cluster, quorum) = cluster_with_client().await;
    let mut object = Vec::new();
    for value in [&b"v\xff"[..], b"v\xfe", b"plain"] {
        let leads = quorum.election("e").campaign(value).await.unwrap();
        let shown = json(&output(command_on(&cluster, ["--json", "observe", "e", "--once"])).await).remove(0);
        object.push((shown["value"].clone(), shown["value_hex"].clone()));
        leads.resign().await.unwrap();
    }
    assert_eq!(
        object,
        [(Value::Null, "76ff".into()), (Value::Null, "76fe".into()), ("plain".into(), Value::Null),]
    );
}

#[tokio::test]
async fn a_pattern_matches_the_unquoted_name() {
    let (cluster, quorum) = cluster_with_client().await;
    let _held = [quorum.red_lock("it's").lock().await.unwrap(), quorum.red_lock("its").lock().await.unwrap()];
    let listed = json(&output(command_on(&cluster, ["--json", "list", "it's"])).await).remove(0);
    let names: Vec<&Value> =
        listed["locks"].as_array().unwrap().iter().map(|lock| &lock["resource"]).collect();
    assert_eq!(names, ["it's"]);
}

#[tokio::test]
async fn a_suggested_command_is_quoted_correctly_for_each_name() {
    let (cluster, quorum) = cluster_with_client().await;
    let _slot = quorum.semaphore("my gpu", 1).acquire().await.unwrap();
    let shown = async |arguments: &[&str], name: &[u8]| {
        let held = quorum.red_lock(name).lock().await.unwrap();
        let mut inspect = command_on(&cluster, ["inspect"]);
        inspect.args(arguments).arg("--").arg(OsStr::from_bytes(name));
        let pty = Pty::open(80);
        let mut inspecting = pty.spawn(inspect);
        assert!(tokio::time::timeout(TIME_LIMIT, inspecting.wait()).await.unwrap().unwrap().success());
        eventually(TIME_LIMIT, "the suggested command has been read", async || {
            pty.text().contains("ends it")
        })
        .await;
        held.unlock().await.unwrap();
        let text = pty.text();
        let command = text.split_once("\n`redquorum ").and_then(|(_, rest)| rest.split_once("` ends it"));
        command.unwrap_or_else(|| panic!("{text}")).0.to_owned()
    };
    for (name, quoted) in NAMES {
        let command = shown(&[], name).await;
        assert_eq!(command, format!("force-unlock {quoted}"));
        let typed = format!("redquorum() {{ printf '<%s>' \"$@\"; }}; redquorum {command}");
        let arguments = tokio::process::Command::new("bash").args(["-c", &typed]).output().await.unwrap();
        let dashes = if name.starts_with(b"-") { "<-->" } else { "" };
        let expected = [b"<force-unlock>", dashes.as_bytes(), b"<", name, b">"].concat();
        assert_eq!(arguments.stdout, expected, "{command}");
    }
    assert_eq!(shown(&["-n", "1"], b"my gpu").await, "force-unlock --slot 0 'my gpu'");
    let long = "a rather long name of several words ".repeat(4);
    assert_eq!(shown(&[], long.as_bytes()).await, format!("force-unlock '{long}'"));
}
