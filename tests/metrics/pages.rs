//! The documents, the dashboard and the alerts for operators name exactly the metrics and labels that exist.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Mutex,
};

use ::metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit};
use redquorum::metrics::{ALL, Kind};
use serde_json::Value;

const PAGE: &str = include_str!("../../docs/OBSERVABILITY.md");
const DASHBOARD: &str = include_str!("../../docs/grafana-dashboard.json");
const ALERTS: &str = include_str!("../../examples/recipes/files/alerts.yaml");

fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
        _ => panic!("a kind that the page has no word for: {kind:?}"),
    }
}

/// Returns the texts between backticks in a table cell.
fn code(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_table_of_the_page_lists_all_metrics() {
    let rows = PAGE.lines().filter(|line| line.starts_with("| `redquorum_"));
    let documented: Vec<(String, String, Vec<&str>)> = rows
        .map(|row| {
            let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
            assert_eq!(
                cells.len(),
                5,
                "a row without the cells name, type, labels, meaning and alert: {row}"
            );
            assert!(cells.iter().skip(3).all(|cell| !cell.trim().is_empty()), "{row}");
            (code(cells[0]).concat(), cells[1].trim().to_owned(), code(cells[2]))
        })
        .collect();
    let measured: Vec<_> = ALL
        .iter()
        .map(|metric| (metric.name.to_owned(), kind(metric.kind).to_owned(), metric.labels.to_vec()))
        .collect();
    assert_eq!(documented, measured);
}

#[test]
fn names_follow_the_conventions_of_prometheus() {
    for metric in ALL {
        let name = metric.name;
        assert!(name.starts_with("redquorum_"), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        let has_unit = name.ends_with("_seconds") || name.ends_with("_ratio");
        match metric.kind {
            Kind::Histogram => assert!(has_unit, "{name}"),
            Kind::Gauge => assert!(!name.ends_with("_ratio"), "{name}"),
            _ => assert!(!has_unit, "{name}"),
        }
        assert!(metric.labels.first() == Some(&"quorum") && !metric.labels.contains(&"resource"), "{name}");
    }
    let names: BTreeSet<_> = ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), ALL.len());
}

/// The kind and the unit of each described metric.
#[derive(Debug, Default)]
struct Descriptions(Mutex<BTreeMap<String, (Kind, Option<Unit>)>>);

impl Descriptions {
    fn record(&self, name: &KeyName, kind: Kind, unit: Option<Unit>) {
        self.0.lock().unwrap().insert(name.as_str().to_owned(), (kind, unit));
    }
}

impl Recorder for Descriptions {
    fn describe_counter(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.record(&name, Kind::Counter, unit);
    }

    fn describe_gauge(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.record(&name, Kind::Gauge, unit);
    }

    fn describe_histogram(&self, name: KeyName, unit: Option<Unit>, _: SharedString) {
        self.record(&name, Kind::Histogram, unit);
    }

    fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
        Counter::noop()
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

#[test]
fn a_description_has_the_kind_and_unit_of_the_name() {
    let descriptions = Descriptions::default();
    ::metrics::with_local_recorder(&descriptions, redquorum::metrics::describe);
    let described = descriptions.0.into_inner().unwrap();
    assert_eq!(described.len(), ALL.len());
    for metric in ALL {
        let (kind, unit) = &described[metric.name];
        let expected = match metric.kind {
            _ if metric.name.ends_with("_seconds") => Some(Unit::Seconds),
            Kind::Histogram => None,
            _ => Some(Unit::Count),
        };
        assert_eq!((*kind, *unit), (metric.kind, expected), "{}", metric.name);
    }
}

/// Returns all strings under a key of this name, at any depth.
fn strings<'a>(value: &'a Value, key: &str) -> Vec<&'a str> {
    match value {
        Value::Object(fields) => {
            let here = fields.get(key).and_then(Value::as_str);
            here.into_iter().chain(fields.values().flat_map(|value| strings(value, key))).collect()
        }
        Value::Array(values) => values.iter().flat_map(|value| strings(value, key)).collect(),
        _ => Vec::new(),
    }
}

/// Returns the metrics of a query. A series of a histogram counts as the histogram.
fn metrics_of(query: &str) -> BTreeSet<&str> {
    let words = query.split(|character: char| !(character.is_ascii_alphanumeric() || character == '_'));
    words
        .filter(|word| word.starts_with("redquorum_"))
        .map(|word| {
            let histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| word.strip_suffix(suffix));
            histogram.unwrap_or(word)
        })
        .collect()
}

#[test]
fn the_dashboard_queries_exactly_the_existing_metrics() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let queries = [strings(&dashboard, "expr"), strings(&dashboard, "query")].concat();
    let queried: BTreeSet<_> = queries.into_iter().flat_map(metrics_of).collect();
    assert_eq!(queried, ALL.iter().map(|metric| metric.name).collect());
}

#[test]
fn every_dashboard_panel_has_title_description_and_datasource() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 39);
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(
        variables
            .iter()
            .any(|variable| variable["type"] == "datasource" && variable["query"] == "prometheus")
    );
    let panels = dashboard["panels"].as_array().unwrap();
    let mut ids = BTreeSet::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        for field in ["title", "description"] {
            assert!(panel[field].as_str().is_some_and(|text| !text.is_empty()), "no {field}: {panel}");
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{panel}");
        assert!(!panel["targets"].as_array().unwrap().is_empty(), "{panel}");
    }
    assert!(panels.iter().all(|panel| ids.insert(panel["id"].as_u64())), "two panels have one id");
}

/// Returns the selectors of a query: each metric with the labels between its braces, such as
/// `outcome="held"`.
fn selectors(query: &str) -> Vec<(&str, Vec<&str>)> {
    let selectors = query.split('{').zip(query.split('{').skip(1));
    selectors
        .map(|(before, after)| {
            let name = metrics_of(before.rsplit(|letter: char| "( ".contains(letter)).next().unwrap());
            let matchers = after.split('}').next().unwrap().split(',');
            let labels = matchers.map(|matcher| matcher.split(['=', '!']).next().unwrap().trim()).collect();
            (
                name.into_iter().next().unwrap_or_else(|| panic!("a selector without a metric: {query}")),
                labels,
            )
        })
        .collect()
}

#[test]
fn alerts_query_existing_metrics_by_existing_labels() {
    let rules: Value = serde_saphyr::from_str(ALERTS).unwrap();
    let groups = rules["groups"].as_array().unwrap();
    let rules: Vec<&Value> = groups.iter().flat_map(|group| group["rules"].as_array().unwrap()).collect();
    assert!(rules.len() >= 8, "{rules:?}");
    for rule in rules {
        let query = rule["expr"].as_str().unwrap();
        let measured = |name: &str| {
            let metric = ALL.iter().find(|metric| metric.name == name);
            metric.unwrap_or_else(|| panic!("{name} is not measured: {rule}"))
        };
        assert!(!metrics_of(query).is_empty(), "{rule}");
        let grouped =
            query.split("by (").skip(1).flat_map(|after| after.split(')').next().unwrap().split(','));
        let grouped: Vec<&str> = grouped.map(str::trim).filter(|label| *label != "le").collect();
        for name in metrics_of(query) {
            let labels = measured(name).labels;
            assert!(
                grouped.iter().all(|label| labels.contains(label)),
                "{name} has not all of {grouped:?}: {rule}"
            );
        }
        for (name, labels) in selectors(query) {
            assert!(
                labels.iter().all(|label| measured(name).labels.contains(label)),
                "{name} {labels:?}: {rule}"
            );
        }
        for text in ["summary", "description"] {
            assert!(
                rule["annotations"][text].as_str().is_some_and(|text| !text.is_empty()),
                "no {text}: {rule}"
            );
        }
        let shown = strings(rule, "summary").concat();
        for label in shown.split("$labels.").skip(1).map(|after| after.split(' ').next().unwrap()) {
            assert!(grouped.contains(&label), "the query does not keep {label}: {rule}");
        }
    }
}
