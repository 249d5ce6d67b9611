//! Blocks of Rust in the documents, compiled and run as whole programs, exactly as they stand.
//!
//! ```text
//! README.md  --blocks-->  target/tmp/markdown/README_40.rs  --rustc-->  README_40  --run-->  exit status
//!                         (the same line numbers)    ^
//! cargo build -p redquorum ... --example quickstart --+ redquorum, tokio and others, as compiled by this build
//! ```
//!
//! A package for the blocks would be simpler. But cargo would select other features for the dependencies of this
//! package, and would compile forty of them again.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use futures::{StreamExt as _, stream};
use serde_json::Value;
use tokio::{process::Command, time::timeout};

use super::cargo::{cargo, root, scratch};

const DOCUMENTS: [&str; 3] = ["README.md", "docs/GUIDE.md", "docs/SIMULATION.md"];

/// The packages that a block may use.
const PACKAGES: [&str; 4] = ["anyhow", "futures", "redquorum", "tokio"];

/// The packages that `tests/run.sh` builds together, so that their dependencies have the same features in each command.
const MEMBERS: [&str; 3] = ["redquorum", "redquorum-cli", "redquorum-tests"];

/// An example of the library. Its dependencies include all [`PACKAGES`].
const EXAMPLE: &str = "quickstart";

/// Texts of blocks that need no server. A block with any of these texts is run.
const NO_SERVER: [&str; 2] = ["in_memory", "Simulation::new"];

/// The longest time for the run of a block. Each block takes less time, even on a machine under load.
const DEADLINE: Duration = Duration::from_secs(30);

/// The number of blocks that are compiled at once.
const COMPILERS: usize = 2;

/// A block of Rust.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// The path of the document, from the root of the workspace.
    document: String,
    /// The line of the fence, from 1.
    line: usize,
    /// The code after empty lines, so that each line has the same number as in the document.
    code: String,
    /// Whether the program is run after its compilation. Blocks that need a server are not run.
    is_run: bool,
}

/// Returns the blocks of a document, and findings about blocks that are no whole programs.
fn blocks(document: &str, text: &str) -> (Vec<Block>, Vec<String>) {
    let (mut blocks, mut findings) = (Vec::new(), Vec::new());
    let mut lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    while let Some((line, fence)) = lines.next() {
        let Some(info) = fence.trim_start().strip_prefix("```") else { continue };
        let indent = fence.len() - fence.trim_start().len();
        let body = lines.by_ref().take_while(|(_, text)| text.trim() != "```").collect::<Vec<_>>();
        let mut words = info.split(',').map(str::trim);
        if words.next() != Some("rust") {
            continue;
        }
        let words: Vec<_> = words.collect();
        if !matches!(words[..], [] | ["no_run"]) {
            findings.push(format!("{document}:{line}: a block may not be `{}`", words.join(",")));
        }
        let is_hidden = |text: &str| text == "#" || text.starts_with("# ");
        let hidden = body.iter().filter(|(_, text)| is_hidden(text.trim_start()));
        findings.extend(hidden.map(|(line, _)| format!("{document}:{line}: a hidden line")));

        let mut code = "\n".repeat(line);
        for (_, text) in &body {
            code += text.get(indent..).unwrap_or_default();
            code += "\n";
        }
        let is_run = words.is_empty() && NO_SERVER.iter().any(|sign| code.contains(sign));
        blocks.push(Block { document: document.to_owned(), line, code, is_run });
    }
    (blocks, findings)
}

/// Returns the arguments by which rustc finds the packages that this build has compiled.
fn packages() -> Vec<String> {
    let output = cargo("build")
        .args(MEMBERS.map(|member| ["-p", member]).concat())
        .args(["--all-features", "--example", EXAMPLE])
        .arg("--message-format=json-render-diagnostics")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut arguments = Vec::new();
    let mut found = Vec::new();
    for message in String::from_utf8(output.stdout).unwrap().lines() {
        let message: Value = serde_json::from_str(message).expect("cargo writes JSON");
        let name = message["target"]["name"].as_str().unwrap_or_default();
        let files = message["filenames"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let library = files.into_iter().find(|file| file.ends_with(".rlib"));
        if let Some(library) = library {
            arguments.push(format!("-Ldependency={}", Path::new(library).parent().unwrap().display()));
            if PACKAGES.contains(&name) {
                arguments.push(format!("--extern={name}={library}"));
                found.push(name.to_owned());
            }
        }
        let native = message["linked_paths"].as_array().into_iter().flatten().filter_map(Value::as_str);
        arguments.extend(native.map(|path| format!("-L{path}")));
    }
    found.sort();
    assert_eq!(found, PACKAGES, "the packages of the example {EXAMPLE}");
    arguments.sort();
    arguments.dedup();
    arguments
}

impl Block {
    /// Compiles the block, runs it if no server is needed, and returns findings with file and line.
    async fn check(&self, packages: &[String], scratch: &Path, deadline: Duration) -> Vec<String> {
        let findings = match self.compile(packages, scratch).await.unwrap() {
            Ok(program) if self.is_run => self.run(&program, deadline).await.unwrap(),
            Ok(_) => Vec::new(),
            Err(findings) => findings,
        };
        findings.into_iter().map(|finding| format!("{}:{finding}", self.document)).collect()
    }

    /// Compiles the block, and returns the program or findings. A warning is a finding, because readers copy blocks.
    async fn compile(&self, packages: &[String], scratch: &Path) -> io::Result<Result<PathBuf, Vec<String>>> {
        let stem = Path::new(&self.document).file_stem().unwrap_or_default();
        let program = scratch.join(format!("{}_{}", stem.display(), self.line));
        let source = program.with_extension("rs");
        fs::write(&source, &self.code)?;
        let mut rustc = Command::new("rustc");
        rustc.args(["--edition=2024", "--error-format=json", "-Adead_code"]).args(packages);
        // `RUSTFLAGS` may name a linker. Flags of cargo's configuration files have no effect here.
        rustc.args(env::var("RUSTFLAGS").unwrap_or_default().split_whitespace());
        if self.code.contains("#[test]") {
            rustc.arg("--test");
        }
        let output = rustc.arg("-o").args([&program, &source]).output().await?;
        let messages = String::from_utf8_lossy(&output.stderr);
        let diagnostics = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut findings: Vec<_> = diagnostics.filter_map(|diagnostic| finding(&diagnostic)).collect();
        if !output.status.success() && findings.is_empty() {
            findings.push(format!("{}: rustc failed: {messages}", self.line));
        }
        Ok(if findings.is_empty() { Ok(program) } else { Err(findings) })
    }

    async fn run(&self, program: &Path, deadline: Duration) -> io::Result<Vec<String>> {
        let mut program = Command::new(program);
        program.env("RUST_BACKTRACE", "0").stdin(Stdio::null()).kill_on_drop(true);
        let Ok(output) = timeout(deadline, program.output()).await else {
            return Ok(vec![format!("{}: still running after {deadline:?}", self.line)]);
        };
        let output = output?;
        let text = [output.stderr, output.stdout].concat(); // a test harness writes to the latter
        let text = String::from_utf8_lossy(&text);
        let failed = format!("{}: {}: {}", self.line, output.status, text.trim());
        Ok(if output.status.success() { Vec::new() } else { vec![failed] })
    }
}

/// Returns the line and the message of an error or warning.
fn finding(diagnostic: &Value) -> Option<String> {
    let mut spans = diagnostic["spans"].as_array()?.iter();
    let line = spans.find(|span| span["is_primary"] == true)?["line_start"].as_u64()?;
    Some(format!("{line}: {}: {}", diagnostic["level"].as_str()?, diagnostic["message"].as_str()?))
}

async fn check_all(blocks: &[Block], packages: &[String], scratch: &Path, deadline: Duration) -> Vec<String> {
    let checks = stream::iter(blocks).map(|block| block.check(packages, scratch, deadline));
    checks.buffered(COMPILERS).concat().await
}

#[tokio::test]
async fn each_block_of_the_documents_compiles_and_runs() {
    let (mut all, mut findings) = (Vec::new(), Vec::new());
    for document in DOCUMENTS {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let (blocks, of_document) = blocks(document, &text);
        assert!(!blocks.is_empty(), "{document} has no block of Rust");
        all.extend(blocks);
        findings.extend(of_document);
    }
    // A block with hidden lines would also give an error for each of these lines.
    if findings.is_empty() {
        findings = check_all(&all, &packages(), &scratch("markdown").unwrap(), DEADLINE).await;
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn a_block_keeps_its_lines_and_loses_its_indent() {
    let text = "# Title\n```rust\nfn main() {}\n```\n1. Item\n\n   ```rust,no_run\n   fn main() {\n\n       in_memory()\n   }\n   ```\n\
                ```sh\n# a comment\n```\n```rust\n#[test]\nfn a() { in_memory() }\n```\n";
    let (blocks, findings) = blocks("docs/a.md", text);
    assert_eq!(findings, Vec::<String>::new());
    let block = |line, code: &str, is_run| Block {
        document: "docs/a.md".to_owned(),
        line,
        code: "\n".repeat(line) + code,
        is_run,
    };
    let expected = [
        block(2, "fn main() {}\n", false),
        block(7, "fn main() {\n\n    in_memory()\n}\n", false),
        block(16, "#[test]\nfn a() { in_memory() }\n", true),
    ];
    assert_eq!(blocks, expected);
}

#[test]
fn hidden_lines_and_ignored_blocks_are_found() {
    let text = "```rust\n# fn main() {\nlet a = 1;\n   #\n# }\n```\n```rust,ignore\n```\n```rust,no_run,ignore\n```\n";
    let findings = [
        "a.md:2: a hidden line",
        "a.md:4: a hidden line",
        "a.md:5: a hidden line",
        "a.md:7: a block may not be `ignore`",
        "a.md:9: a block may not be `no_run,ignore`",
    ];
    assert_eq!(blocks("a.md", text).1, findings);
}

#[tokio::test]
async fn a_broken_block_is_found_with_its_line() {
    let text = "```rust\nfn main() {\n    let _: u8 = \"a\";\n}\n```\n\
                ```rust\nfn main() { let in_memory = 1; }\n```\n\
                ```rust\nlet a = 1;\n```\n\
                ```rust\nfn main() { panic!(\"in_memory\") }\n```\n\
                ```rust\nfn main() { let _in_memory = loop { std::thread::park() }; }\n```\n\
                ```rust\n#[test]\nfn in_memory() { assert_eq!(1, 2) }\n```\n\
                ```rust\nfn main() { panic!(\"run\") }\n```\n\
                ```rust,no_run\nfn main() { panic!(\"in_memory\") }\n```\n";
    let (blocks, findings) = blocks("docs/broken.md", text);
    assert_eq!(findings, Vec::<String>::new());
    let scratch = scratch("broken_markdown").unwrap();
    let findings = check_all(&blocks, &[], &scratch, Duration::from_secs(5)).await;
    let expected = [
        ("docs/broken.md:3: error: ", "mismatched types"),
        ("docs/broken.md:7: warning: ", "unused variable"),
        ("docs/broken.md:10: error: ", "expected item"),
        ("docs/broken.md:12: exit status: ", "in_memory"),
        ("docs/broken.md:15: still running after ", "5s"),
        ("docs/broken.md:18: exit status: ", "left: 1"),
    ];
    assert_eq!(findings.len(), expected.len(), "{}", findings.join("\n"));
    for (finding, (begin, part)) in findings.iter().zip(expected) {
        assert!(finding.starts_with(begin) && finding.contains(part), "{finding}");
    }
}
