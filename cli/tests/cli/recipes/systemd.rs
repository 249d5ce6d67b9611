//! The recipes for systemd.

use super::*;

/// A unit, with the settings of all sections in order.
struct Unit(Vec<(String, String)>);

impl Unit {
    fn read(name: &str) -> Self {
        let text = recipe(name);
        let settings = text.lines().filter_map(|line| line.split_once('='));
        Self(settings.map(|(name, value)| (name.to_owned(), value.replace("%H", HOST))).collect())
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(setting, _)| setting == name).map(|(_, value)| value.as_str())
    }

    fn only(&self, name: &str) -> &str {
        self.all(name).next().unwrap_or_else(|| panic!("no {name}="))
    }

    fn variables(&self) -> Vec<(String, String)> {
        let assigned = self.all("Environment").map(|line| line.split_once('=').unwrap());
        assigned.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    /// Returns the command as systemd parses it: single quotes enclose one word, and `$$` is a `$`.
    fn words(&self) -> Vec<String> {
        let line = self.only("ExecStart");
        assert!(!line.contains(['%', '\\']), "the test does not interpret these escapes: {line}");
        assert!(!line.replace("$$", "").contains('$'), "systemd would expand a variable: {line}");
        let parts = line.split('\'').enumerate();
        let words = parts.flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        });
        words.map(|word| word.replace("$$", "$")).collect()
    }
}

#[tokio::test]
async fn a_timer_runs_its_service_on_one_of_two_hosts() {
    let unit = Unit::read("redquorum-report.service");
    assert_variables_are_read(&unit.variables(), "run").await;
    assert_no_label(&unit.variables());
    let machine = Machine::new().await;
    let (ran, held) = machine.run_on_two_hosts(|| machine.command(&unit.words(), &unit.variables())).await;
    assert_eq!(exit_code(&ran), 0, "{}", stderr(&ran));
    assert_eq!(exit_code(&held).to_string(), unit.only("SuccessExitStatus"), "{}", stderr(&held));
    assert!(stderr(&held).contains("another client holds nightly-report"), "{}", stderr(&held));
    machine.assert_one_run_with_token(machine.command(&unit.words(), &unit.variables())).await;
    let timer = Unit::read("redquorum-report.timer");
    assert!(timer.only("OnCalendar").starts_with("*-*-* "));
}

/// With `KillMode=mixed`, systemd sends SIGTERM only to redquorum, which passes the signal on.
#[tokio::test]
async fn a_service_leads_until_it_is_stopped() {
    let unit = Unit::read("redquorum-scheduler.service");
    assert_variables_are_read(&unit.variables(), "elect").await;
    assert_no_label(&unit.variables());
    assert_eq!((unit.only("KillMode"), unit.only("Restart")), ("mixed", "always"));
    let machine = Machine::new().await;
    let leader = machine.command(&unit.words(), &unit.variables()).spawn().unwrap();
    machine.notes(1).await;
    assert_eq!(machine.leader("scheduler").await, HOST);
    let ended = machine.terminate_leader(leader).await;
    assert_eq!(exit_code(&ended).to_string(), unit.only("SuccessExitStatus"), "{}", stderr(&ended));
    let observed =
        output(command_admitting_new_nodes(&machine.cluster, ["observe", "scheduler", "--once"])).await;
    assert_eq!(exit_code(&observed), 80, "the stopped service still leads: {}", stderr(&observed));
}

/// Without `RestartPreventExitStatus`, systemd would restart the service every five seconds without limit.
#[tokio::test]
async fn a_service_with_invalid_settings_is_not_restarted() {
    let unit = Unit::read("redquorum-scheduler.service");
    let machine = Machine::new().await;
    let prevented: Vec<&str> = unit.only("RestartPreventExitStatus").split(' ').collect();
    let end = async |words: &[String], variables: &[(String, String)]| {
        let ended = output(machine.command(words, variables)).await;
        assert!(
            prevented.contains(&&*exit_code(&ended).to_string()),
            "{}: {}",
            exit_code(&ended),
            stderr(&ended)
        );
        exit_code(&ended)
    };
    let without_election: Vec<String> = unit.words().drain(..2).collect();
    let arguments = end(&without_election, &unit.variables()).await;
    std::fs::write(machine.scratch.file("redquorum.toml"), "nodes = 3\n").unwrap();
    let settings = end(&unit.words(), &unit.variables()).await;
    assert_eq!([arguments, settings].map(|code| code.to_string()).as_slice(), &prevented);
}
