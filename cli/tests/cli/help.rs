//! Output that needs no server: help, completions and manual pages.
//!
//! Help texts are compared with the files in `help/`. `REDQUORUM_TEST_WRITE=1` rewrites the files.

use std::path::Path;

use super::{
    redquorum::{exit_code, output, redquorum, stderr, stdout},
    scratch::Scratch,
};

/// Compares the help of a command with its file.
async fn assert_equals_file(words: &[&str], name: &str) {
    let shown = output(redquorum(words.iter().chain(&["--help"]))).await;
    assert_eq!((exit_code(&shown), stderr(&shown)), (0, String::new()));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/help").join(format!("{name}.txt"));
    if std::env::var_os("REDQUORUM_TEST_WRITE").is_some() {
        std::fs::write(&path, stdout(&shown)).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap();
    assert_eq!(stdout(&shown), expected, "{} differs", path.display());
}

#[tokio::test]
async fn the_general_help_matches_its_file() {
    assert_equals_file(&[], "redquorum").await;
}

#[tokio::test]
async fn the_help_of_every_command_matches_its_file() {
    for command in [
        "run",
        "lock",
        "unlock",
        "elect",
        "observe",
        "latch",
        "inspect",
        "list",
        "top",
        "force-unlock",
        "init",
        "reconfigure",
        "replace",
        "doctor",
        "bench",
        "completions",
        "man",
    ] {
        assert_equals_file(&[command], command).await;
    }
}

/// In `run` and `elect`, `--` begins the command to run, so a name that begins with `-` cannot be put after `--`.
#[tokio::test]
async fn no_tip_puts_a_value_after_the_dashes_of_a_command_to_run() {
    for arguments in [
        &["run", "-x", "--", "true"][..],
        &["run", "x", "--wait", "-1s", "--", "true"],
        &["elect", "-x", "--value", "v", "--", "true"],
    ] {
        let refused = output(redquorum(arguments)).await;
        let text = stderr(&refused);
        assert_eq!(exit_code(&refused), 64, "{arguments:?}: {text}");
        assert!(
            text.contains("unexpected argument") && !text.contains("as a value"),
            "{arguments:?}: {text}"
        );
    }
    let inspect = output(redquorum(["inspect", "-x"])).await;
    assert!(stderr(&inspect).contains("'-- -x'"), "{}", stderr(&inspect));
    let typo = output(redquorum(["run", "x", "--wiat", "1s", "--", "true"])).await;
    assert!(stderr(&typo).contains("'--wait'"), "{}", stderr(&typo));
}

/// Each command accepts the shared options, but only the general help lists them.
#[tokio::test]
async fn the_help_of_a_command_names_shared_options_in_one_line() {
    for help in [&["run", "--help"][..], &["run", "-h"], &["help", "run"]] {
        let shown = stdout(&output(redquorum(help)).await);
        let (own, shared) = (shown.find("--held-exit").unwrap(), shown.find("--node").unwrap());
        assert!(own < shared, "{shown}");
        assert!(shown.trim_end().ends_with("(--json, -v): redquorum help"), "{shown}");
        assert_eq!(
            (shown.matches("--node").count(), shown.contains("--admit-new-nodes")),
            (1, false),
            "{shown}"
        );
    }
    for help in [&["help"][..], &["--help"], &["-h"]] {
        let shown = stdout(&output(redquorum(help)).await);
        for option in
            ["--node", "--config", "--label", "--ca", "--key", "--admit-new-nodes", "--json", "--verbose"]
        {
            assert!(shown.contains(option), "{option}: {shown}");
        }
    }
}

#[tokio::test]
async fn each_shell_has_completions() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = output(redquorum(["completions", shell])).await;
        assert_eq!(exit_code(&script), 0, "{}", stderr(&script));
        for option in ["kill-after", "admit-new-nodes"] {
            assert!(stdout(&script).contains(option), "{shell}: {option}");
        }
        assert!(!stdout(&script).contains("exec-child"), "{shell} completes an internal command");
    }
}

#[tokio::test]
async fn manual_pages_are_printed_or_written_to_a_directory() {
    let page = output(redquorum(["man"])).await;
    assert!(stdout(&page).contains(".TH redquorum 1"), "{}", stdout(&page));
    let scratch = Scratch::new();
    let directory = scratch.file("new/man1");
    let written = output(redquorum(["man", &directory])).await;
    assert_eq!((exit_code(&written), stdout(&written)), (0, String::new()), "{}", stderr(&written));
    for page in ["redquorum.1", "redquorum-run.1", "redquorum-elect.1", "redquorum-observe.1"] {
        assert!(scratch.read(&format!("new/man1/{page}")).contains(".SH NAME"), "{page}");
    }
    assert!(
        scratch.read("new/man1/redquorum-run.1").contains(r"admit\-new\-nodes"),
        "the page has the shared options"
    );
    assert!(!scratch.path().join("new/man1/redquorum-exec-child.1").exists());
    let page = scratch.read("new/man1/redquorum-run.1");
    let synopsis = page.split(".SH SYNOPSIS").nth(1).and_then(|rest| rest.split(".SH").next()).unwrap();
    let places =
        ["shared", "ttl", "kill\\-after", "command", "node", "config", "verbose", "help"].map(|option| {
            synopsis
                .find(&format!(r"\-\-{option}"))
                .unwrap_or_else(|| panic!("{option} is not in {synopsis}"))
        });
    assert!(places.is_sorted(), "the options of the command precede the shared options: {synopsis}");
    let nowhere = output(redquorum(["man", "/dev/null/man1"])).await;
    assert_eq!(exit_code(&nowhere), 74, "{}", stderr(&nowhere));
}

/// The error of an option of `consul lock` or `flock` names the option of `redquorum`.
#[tokio::test]
async fn an_option_of_another_tool_gets_advice() {
    for (arguments, advice) in [
        (&["run", "job", "--timeout", "5s", "--", "true"][..], "`--wait DURATION`"),
        (&["run", "job", "--timeout=5s", "--", "true"], "`--wait DURATION`"),
        (&["run", "job", "--nonblock", "--", "true"], "`--wait 0`"),
        (&["run", "-n", "job", "--", "true"], "`--wait 0`"),
    ] {
        let shown = output(redquorum(arguments)).await;
        assert_eq!(exit_code(&shown), 64, "{}", stderr(&shown));
        assert!(stderr(&shown).contains(advice), "{arguments:?}: {}", stderr(&shown));
    }
}
