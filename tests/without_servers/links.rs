//! Links in the documents: each link to a file or a heading leads to an existing file and heading.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The folders of which all documents are checked.
const FOLDERS: [&str; 2] = ["docs", "docs/evidence"];

/// The checked documents outside of these folders.
const PAGES: [&str; 7] = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "examples/recipes/README.md",
    "tests/proof/README.md",
    "tests/histories/README.md",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn pages() -> Vec<PathBuf> {
    let entries = FOLDERS.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    let in_folders = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    in_folders.chain(PAGES.map(|page| root().join(page))).collect()
}

/// Returns the text outside of code blocks.
fn prose(page: &str) -> String {
    let mut is_code = false;
    let mut prose = String::new();
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            prose += line;
            prose += "\n";
        }
    }
    assert!(!is_code, "a block of code does not end");
    prose
}

/// Returns the targets of `[text](target)` and `[text]: target`.
fn targets(page: &str) -> Vec<String> {
    let prose = prose(page);
    let end = |letter: char| letter == ')' || letter.is_whitespace();
    let inline = prose.split("](").skip(1).filter_map(|after| after.split(end).next());
    let defined =
        prose.lines().filter_map(|line| line.strip_prefix('[')?.split_once("]: ").map(|(_, after)| after));
    inline.chain(defined).map(str::to_owned).collect()
}

/// Returns the anchors of a page's headings, as GitHub generates them.
fn anchors(page: &str) -> BTreeSet<String> {
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    let mut anchors = BTreeSet::new();
    for line in prose(page).lines() {
        let text = line.trim_start_matches('#');
        if text.len() == line.len() || !text.starts_with(' ') {
            continue;
        }
        let letters =
            text.trim().chars().filter(|letter| letter.is_alphanumeric() || " -_".contains(*letter));
        let anchor = letters.collect::<String>().to_lowercase().replace(' ', "-");
        let time = times.entry(anchor.clone()).or_default();
        anchors.insert(if *time == 0 { anchor } else { format!("{anchor}-{time}") });
        *time += 1;
    }
    anchors
}

/// Returns the problem of a broken link, or `None`.
fn problem(page: &Path, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
    let path = if file.is_empty() { page.to_owned() } else { page.parent()?.join(file) };
    let shown = page.strip_prefix(root()).unwrap().display();
    if !path.exists() {
        return Some(format!("{shown}: there is no file {target}"));
    }
    let anchor = anchor?;
    let there = anchors(&fs::read_to_string(&path).unwrap());
    (!there.contains(anchor)).then(|| format!("{shown}: there is no heading {target}"))
}

#[test]
fn each_link_leads_to_an_existing_file_and_heading() {
    let mut links = 0;
    let mut problems = Vec::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
        let targets = targets(&text);
        links += targets.len();
        problems.extend(targets.iter().filter_map(|target| problem(&page, target)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(links > 100, "only {links} links were found");
}

#[test]
fn links_and_anchors_are_found() {
    let page = "# A `b_c` (1 h), *d*\nsee [x\ny](a.md#b-c) and ![z](d.svg).\n```text\n# no\n[no](no.md)\n```\n## Same\n\
                ## Same\n[ref]: https://example.org\n#no";
    assert_eq!(targets(page), ["a.md#b-c", "d.svg", "https://example.org"]);
    assert_eq!(anchors(page), ["a-b_c-1-h-d", "same", "same-1"].map(str::to_owned).into());
    let readme = root().join("README.md");
    assert_eq!(problem(&readme, "docs/CLI.md#run"), None);
    assert!(problem(&readme, "docs/CLI.md#walk").is_some_and(|problem| problem.contains("no heading")));
    assert!(problem(&readme, "docs/CLY.md").is_some_and(|problem| problem.contains("no file")));
}
