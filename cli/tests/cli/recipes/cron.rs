//! The recipe for cron.

use super::*;

/// Parses a line of `/etc/cron.d` with a user. Returns the five fields of the time, and the text
/// for the shell.
fn job(line: &str) -> (Vec<&str>, &str) {
    let mut fields = line.splitn(7, ' ');
    let fields_of_time: Vec<&str> = fields.by_ref().take(5).collect();
    let is_time = |field: &&str| field.bytes().all(|byte| b"0123456789*,-/".contains(&byte));
    assert!(fields_of_time.iter().all(is_time), "{line}");
    assert!(fields.next().is_some_and(|user| user.bytes().all(|byte| byte.is_ascii_lowercase())), "{line}");
    (fields_of_time, fields.next().unwrap())
}

#[tokio::test]
async fn a_cron_line_runs_its_job_on_one_of_two_hosts() {
    let text = recipe("redquorum-report.cron");
    let is_variable = |line: &&str| line.starts_with(|letter: char| letter.is_ascii_uppercase());
    let (variables, jobs): (Vec<_>, Vec<_>) = text.lines().partition(is_variable);
    let variables: Vec<(String, String)> = variables
        .into_iter()
        .map(|line| line.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())).unwrap())
        .collect();
    assert_variables_are_read(&variables, "run").await;
    assert!(!jobs.is_empty());
    for line in jobs {
        let (_, text) = job(line);
        assert!(!text.contains('%'), "cron replaces % by a line feed: {line}");
        let machine = Machine::new().await;
        let words = ["sh", "-c", text].map(str::to_owned);
        let (ran, held) = machine.run_on_two_hosts(|| machine.command(&words, &variables)).await;
        assert_eq!(exit_code(&ran), 0, "{}", stderr(&ran));
        assert_eq!(exit_code(&held), 75, "{}", stderr(&held));
        assert!(stderr(&held).contains("another client holds nightly-report"), "{}", stderr(&held));
        machine.assert_one_run_with_token(machine.command(&words, &variables)).await;
    }
}
