use super::*;

/// A unit: its settings in their order, whatever the section.
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

    /// What it runs.
    fn words(&self) -> Vec<String> {
        let line = self.only("ExecStart");
        assert!(!line.contains(['%', '$', '"', '\'', '\\']), "this test knows no quotes: {line}");
        line.split(' ').map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn a_timer_runs_its_service_on_one_of_two_hosts() {
    let unit = Unit::read("redquorum-report.service");
    are_read(&unit.variables(), "run").await;
    let machine = Machine::new().await;
    let (ran, held) = machine.run_on_two_hosts(|| machine.command(&unit.words(), &unit.variables())).await;
    assert_eq!(code(&ran), 0, "{}", stderr(&ran));
    assert_eq!(code(&held).to_string(), unit.only("SuccessExitStatus"), "{}", stderr(&held));
    assert!(stderr(&held).contains("somebody else holds nightly-report"), "{}", stderr(&held));
    assert_eq!(machine.noted(1).await.len(), 1, "it ran once");
    let timer = Unit::read("redquorum-report.timer");
    assert!(timer.only("OnCalendar").starts_with("*-*-* "));
}

/// systemd signals the command alone (`KillMode=mixed`), which passes it on.
#[tokio::test]
async fn a_service_leads_until_it_is_stopped() {
    let unit = Unit::read("redquorum-scheduler.service");
    are_read(&unit.variables(), "elect").await;
    assert_eq!((unit.only("KillMode"), unit.only("Restart")), ("mixed", "always"));
    let machine = Machine::new().await;
    let leader = machine.command(&unit.words(), &unit.variables()).spawn().unwrap();
    machine.noted(1).await;
    assert_eq!(machine.leader("scheduler").await, HOST);
    assert!(
        machine.inspected("scheduler").await.contains(&format!("{HOST}/")),
        "a holder is shown by its label"
    );
    let ended = machine.terminate_leader(leader).await;
    assert_eq!(code(&ended).to_string(), unit.only("SuccessExitStatus"), "{}", stderr(&ended));
    let nobody = output(on(&machine.cluster, ["observe", "scheduler", "--once"])).await;
    assert_eq!(code(&nobody), 80, "it has resigned: {}", stderr(&nobody));
}
