//! Settings from arguments, the environment and a file, and the precedence of these sources.

use std::{ffi::OsString, path::PathBuf, sync::atomic::AtomicU32};

use super::*;
use crate::error::ConfigError;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/redquorum.toml");

fn loaded(arguments: &Arguments, variables: &[(&str, &str)]) -> Result<QuorumBuilder, ConfigError> {
    load_from(arguments, |name| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| OsString::from(*value))
    })
}

fn builder(nodes: &[&str]) -> QuorumBuilder {
    QuorumBuilder::new().nodes(nodes.iter().copied())
}

fn assert_same(actual: Result<QuorumBuilder, ConfigError>, expected: &QuorumBuilder) {
    // `Debug` of a builder shows every setting.
    assert_eq!(format!("{:?}", actual.unwrap()), format!("{expected:?}"));
}

/// A temporary file, which is deleted when it is dropped.
struct File(PathBuf);

impl File {
    fn new(text: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("redquorum-settings-{}-{number}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        Self(path)
    }

    fn argument(&self) -> Arguments {
        Arguments::new().file(&self.0)
    }

    fn error(&self) -> String {
        loaded(&self.argument(), &[]).unwrap_err().to_string()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        std::fs::remove_file(&self.0).ok();
    }
}

#[test]
fn arguments_override_the_environment_which_overrides_the_file() {
    let file = File::new("nodes = ['redis://file']\nname = 'file'\nttl = '1s'\n");
    let path = file.0.to_str().unwrap();
    let expected = |node: &str| builder(&[node]).name("file").ttl(std::time::Duration::from_secs(1));
    assert_same(loaded(&file.argument(), &[]), &expected("redis://file"));
    assert_same(loaded(&Arguments::new(), &[("REDQUORUM_CONFIG", path)]), &expected("redis://file"));
    let nodes = ("REDQUORUM_NODES", "redis://environment");
    assert_same(loaded(&file.argument(), &[nodes]), &expected("redis://environment"));
    let arguments = file.argument().nodes(["redis://argument"]);
    assert_same(
        loaded(&arguments, &[nodes, ("REDQUORUM_CONFIG", "/nowhere"), ("REDQUORUM_NAME", "environment")]),
        &expected("redis://argument").name("environment"),
    );
    assert_same(
        loaded(&file.argument(), &[("REDQUORUM_NODES", ""), ("REDQUORUM_TTL", "")]),
        &expected("redis://file"),
    );
}

/// For each key of the example file, a file with the key and a variable give the same settings.
#[test]
fn each_key_of_a_file_has_a_variable_of_equal_effect() {
    let text = std::fs::read_to_string(EXAMPLE).unwrap();
    let text = text.replace("# node_timeout =", "node_timeout =");
    let text = text.replace("# attempt_timeout =", "attempt_timeout =");
    let table: toml::Table = text.parse().unwrap();
    let nodes = ("REDQUORUM_NODES".to_owned(), "redis://a".to_owned());
    for key in table.keys().filter(|key| *key != "nodes") {
        // The values differ from the defaults, so that the test detects an ignored key.
        let (value, quote) = match key.as_str() {
            "votes_needed" => ("1", ""),
            "drift" => ("0.125", ""),
            "restart_guard" => ("per-vote", "'"),
            "name" => ("other", "'"),
            _ => ("1234ms", "'"),
        };
        let file = File::new(&format!("nodes = ['redis://a']\n{key} = {quote}{value}{quote}\n"));
        let variable = (format!("REDQUORUM_{}", key.to_uppercase()), value.to_owned());
        let set = [nodes.clone(), variable];
        let set: Vec<(&str, &str)> = set.iter().map(|(name, value)| (&**name, &**value)).collect();
        let by_file = loaded(&file.argument(), &[]).unwrap();
        assert_same(loaded(&Arguments::new(), &set), &by_file);
        assert_ne!(format!("{by_file:?}"), format!("{:?}", builder(&["redis://a"])), "{key} changes nothing");
    }
    assert_eq!(table.len(), 11, "the example must have all keys except `label` and `[tls]`");
}

#[test]
fn the_example_file_has_the_default_values() {
    let nodes = ["redis://10.0.0.1:6379", "redis://10.0.0.2:6379", "redis://10.0.0.3:6379"];
    let expected = builder(&nodes).name("production").votes_needed(2);
    assert_same(load_from(&Arguments::new().file(EXAMPLE), |_| None), &expected);
}

#[test]
fn nodes_are_a_list_or_one_text_as_in_the_environment() {
    let expected = builder(&["redis://a", "redis+sentinel://b:1,c:2/set", "redis://d"]);
    let text = " redis://a,redis+sentinel://b:1,c:2/set\n redis://d, ";
    assert_same(loaded(&Arguments::new(), &[("REDQUORUM_NODES", text)]), &expected);
    let file = File::new("nodes = 'redis://a,redis+sentinel://b:1,c:2/set redis://d'");
    assert_same(loaded(&file.argument(), &[]), &expected);
}

#[test]
fn the_error_of_a_file_names_the_line_and_shows_no_password() {
    for (text, named) in [
        ("name = 'a'\nvotes = 2\n", "line 2: unknown field `votes`"),
        ("\n\nttl = '30'", "line 3: \"30\" is no duration, the unit is missing: write it like 30s"),
        ("ttl = 10", "line 1: 10 is no duration, the unit is missing: write it like \"10s\""),
        (
            "votes_needed = 'x'",
            "line 1: votes_needed has a value of a wrong kind, expected a whole number, such as 2",
        ),
        ("drift = 'x'", "line 1: drift has a value of a wrong kind, expected a number, such as 0.01"),
        ("name = 1", "line 1: name has a value of a wrong kind, expected a text in quotes"),
        ("tls = { ca = 1 }", "a value of a wrong kind, expected a path in quotes"),
        ("ttl = true", "expected a duration such as \"30s\""),
        ("votes_needed = -1", "line 1: "),
        (
            "restart_guard = 'never'",
            "line 1: unknown restart guard \"never\", expected per-connection, per-vote",
        ),
        ("[tls]\ncertificates = 'a'", "line 2: unknown field `certificates`"),
        ("nodes = [1]", "line 1: "),
        ("nodes = 1", "expected urls such as"),
        ("nodes = ['redis://:secret@a' 'redis://b']", "line 1: "),
        ("nodes = [\n'redis://:secret@a',\n", "line "),
        ("nodes = []\n", "REDQUORUM_NODES"),
    ] {
        let error = File::new(text).error();
        assert!(error.contains(named), "{text:?}: {error}");
        assert!(!error.contains("secret") && !error.contains('\n'), "{text:?}: {error}");
    }
}

#[test]
fn the_error_of_a_variable_names_the_variable_and_its_value() {
    let nodes = ("REDQUORUM_NODES", "redis://a");
    for (name, value, named) in [
        ("REDQUORUM_TTL", "30", "write it like 30s"),
        ("REDQUORUM_MAX_TTL", "long", "no whole number begins at \"long\""),
        ("REDQUORUM_VOTES_NEEDED", "most", "expected a number of nodes, such as 3"),
        ("REDQUORUM_DRIFT", "1%", "expected a share of time, such as 0.01"),
        ("REDQUORUM_RESTART_GUARD", "on", "expected per-connection, per-vote or off"),
    ] {
        let error = loaded(&Arguments::new(), &[nodes, (name, value)]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("{name}={value:?}")) && text.contains(named), "{text}");
        assert!(matches!(error, ConfigError::Variable { name: variable, .. } if variable == name));
    }
    for variables in [&[][..], &[("REDQUORUM_NODES", "")], &[("REDQUORUM_NODES", " , ")]] {
        assert_eq!(loaded(&Arguments::new(), variables).unwrap_err(), ConfigError::NoNodes);
    }
}

/// A url may hold a password. In these cases the url is in the place of another setting or of a key, or outside of a
/// list.
#[test]
fn the_error_of_a_misplaced_value_shows_no_part_of_the_value() {
    let nodes = ("REDQUORUM_NODES", "redis://a");
    for variable in [
        "REDQUORUM_TTL",
        "REDQUORUM_MAX_TTL",
        "REDQUORUM_VOTES_NEEDED",
        "REDQUORUM_DRIFT",
        "REDQUORUM_RESTART_GUARD",
    ] {
        let error = loaded(&Arguments::new(), &[nodes, (variable, "redis://:secret@b")]).unwrap_err();
        for text in [error.to_string(), format!("{error:?}")] {
            assert!(text.contains(variable) && !text.contains("secret"), "{text}");
        }
    }
    for text in [
        "votes_needed = 'redis://:secret@b'",
        "ttl = 'redis://:secret@b'",
        "ttl = ['redis://:secret@b']",
        "drift = 'redis://:secret@b'",
        "restart_guard = 'redis://:secret@b'",
        "restart_guard = ['redis://:secret@b']",
        "name = ['redis://:secret@b']",
        "tls = 'redis://:secret@b'",
        "nodes = { 'redis://:secret@b' = 1 }",
        "nodes = [['redis://:secret@b']]",
        "nodes = ['redis://a', { 'redis://:secret@b' = 1 }]",
        "nodes = redis://:secret@b",
        "'redis://:secret@b' = 1",
        "'redis://:secret@b' = 1\n'redis://:secret@b' = 2",
        "redis://:secret@b",
        "[tls]\n'redis://:secret@b' = 1",
        "[tls]\nca = ['redis://:secret@b']",
        "['redis://:secret@b']\n",
    ] {
        let file = File::new(text);
        let error = loaded(&file.argument(), &[]).unwrap_err();
        for shown in [error.to_string(), format!("{error:?}")] {
            assert!(shown.contains("line") && !shown.contains("secret"), "{text}: {shown}");
        }
    }
}

#[cfg(unix)]
#[test]
fn nodes_that_are_not_utf_8_are_refused_without_their_text() {
    use std::os::unix::ffi::OsStringExt;

    let url = || OsString::from_vec(b"redis://:secret\xff@a".to_vec());
    let variables = |name: &str| (name == "REDQUORUM_NODES").then(url);
    let error = load_from(&Arguments::new(), variables).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("REDQUORUM_NODES") && text.contains("UTF-8"), "{text}");
    assert!(!text.contains("secret") && !format!("{error:?}").contains("secret"), "{text}");
}

#[test]
fn the_error_of_a_missing_file_names_its_path() {
    let error = load_from(&Arguments::new().file("/nowhere/a.toml"), |_| None).unwrap_err();
    assert!(error.to_string().starts_with("/nowhere/a.toml: "), "{error}");
}

#[cfg(feature = "tls")]
#[test]
fn a_pem_path_is_relative_to_its_settings_file_or_the_program() {
    let file = File::new("nodes = ['redis://a']\n[tls]\nca = 'nowhere.pem'\n");
    let beside_settings_file = file.0.parent().unwrap().join("nowhere.pem").display().to_string();
    assert!(file.error().starts_with(&format!("{beside_settings_file}: ")), "{}", file.error());
    let replaced = loaded(&file.argument(), &[("REDQUORUM_CA", "elsewhere.pem")]).unwrap_err();
    assert!(replaced.to_string().starts_with("elsewhere.pem: "), "{replaced}");
    let replaced = loaded(&file.argument().ca("argument.pem"), &[("REDQUORUM_CA", "elsewhere.pem")]);
    assert!(replaced.unwrap_err().to_string().starts_with("argument.pem: "));
    let nodes = Arguments::new().nodes(["redis://a"]);
    for incomplete in [nodes.clone().certificate("a.pem"), nodes.clone().key("a.key")] {
        let refused = loaded(&incomplete, &[]).unwrap_err();
        assert!(refused.to_string().contains("a certificate needs its key"), "{refused}");
    }
    let no_pem = loaded(&nodes.ca(EXAMPLE), &[]).unwrap_err();
    assert!(
        matches!(&no_pem, ConfigError::File { path, line: None, .. } if path.ends_with("redquorum.toml")),
        "{no_pem}"
    );
}

#[test]
fn a_label_is_read_from_the_environment_and_the_file() {
    let file = File::new("nodes = ['redis://file']\nlabel = 'of the file'\n");
    assert_same(loaded(&file.argument(), &[]), &builder(&["redis://file"]).label("of the file"));
    let variables = [("REDQUORUM_LABEL", "web 7")];
    assert_same(loaded(&file.argument(), &variables), &builder(&["redis://file"]).label("web 7"));
}

#[test]
fn a_file_before_the_environment_overrides_only_variables_of_its_own_settings() {
    let file = File::new("nodes = ['redis://file']\nname = 'file'\n");
    let arguments = Arguments::new().file_before_environment(&file.0);
    let variables = [
        ("REDQUORUM_NODES", "redis://environment"),
        ("REDQUORUM_NAME", "environment"),
        ("REDQUORUM_TTL", "1s"),
    ];
    let ttl = std::time::Duration::from_secs(1);
    let expected = |node| builder(&[node]).name("file").ttl(ttl);
    assert_same(loaded(&arguments, &variables), &expected("redis://file"));
    assert_same(
        loaded(&arguments.clone().nodes(["redis://argument"]), &variables),
        &expected("redis://argument"),
    );
}

#[cfg(feature = "__command")]
#[test]
fn overridden_variables_differ_from_a_file_before_the_environment() {
    let file = File::new("nodes = ['redis://file']\nname = 'file'\nttl = '1s'\n[tls]\nca = '/file.pem'\n");
    let overridden = |arguments: &Arguments| {
        let variables = [
            ("REDQUORUM_NODES", "redis://environment"),
            ("REDQUORUM_NAME", "environment"),
            ("REDQUORUM_TTL", "1000ms"),
            ("REDQUORUM_MAX_TTL", "45s"),
            ("REDQUORUM_CA", "/environment.pem"),
        ];
        let found = arguments::overridden_variables(arguments, |name| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| OsString::from(*value))
        });
        found.unwrap()
    };
    let first = Arguments::new().file_before_environment(&file.0);
    assert_eq!(overridden(&first), ["REDQUORUM_NODES", "REDQUORUM_NAME", "REDQUORUM_CA"]);
    assert_eq!(overridden(&first.nodes(["redis://a"]).ca("/a.pem")), ["REDQUORUM_NAME"]);
    assert!(overridden(&file.argument()).is_empty(), "the environment overrides this file");
}
