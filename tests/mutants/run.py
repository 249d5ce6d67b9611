#!/usr/bin/env python3
"""Mutation testing: each mutant of a room of the library against the unit tests of that room.

    tests/mutants/run.py algorithm      all mutants of src/algorithm
    tests/mutants/run.py node_state     all mutants of src/node/state
    tests/mutants/run.py lease          all mutants of src/lease, in a copy of the whole library
    tests/mutants/run.py check          builds the copies of the first two rooms, and runs their tests

cargo-mutants generates the mutants. A build of the library takes minutes, so the mutants do not have a build each: a
copy of the room contains every mutant of a function beside the function, and the variable REDQUORUM_MUTANT selects a
mutant for one run of the tests. A mutant that does not compile is *unviable*. A mutant that no variable can select, in
a constant, in a `const fn` or in a function that returns an `impl Trait`, has a build of its own.

The results are lines of target/mutants/ROOM/results.jsonl. A run continues where the last run ended, and `--part 1/4`
runs a quarter of the mutants. `--again missed` repeats mutants with that result, and `--again all` begins anew.
"""

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# The parts of the library that each room uses beside its own folder, and the filters of its tests. The tests of `lease`
# are those of all layers above that need no servers and no simulator.
ROOMS = {
    "algorithm": {
        "files": "src/algorithm",
        "parts": ["algorithm", "clock/instant.rs", "mutation.rs", "values"],
        "tests": ["algorithm::"],
    },
    "node_state": {
        "files": "src/node/state",
        "parts": [
            "clock/instant.rs", "mutation.rs", "node/examples", "node/names.rs", "node/operation",
            "node/parameters.rs", "node/state", "node/ttl.rs", "values",
        ],
        "tests": ["node::state::", "--skip", "short_sequences::"],
        # The search of eight steps takes minutes.
        "slow_tests": ["node::state::tests::short_sequences::", "--skip", "no_sequence_of_eight_steps"],
    },
    "lease": {
        "files": "src/lease",
        "parts": None,
        # These tests take seconds, and find most mutants.
        "tests": ["lease::", "lock::tests::"],
        "slow_tests": ["lease::", "lock::", "acquire::", "client::", "election::", "semaphore::", "latch::", "quorum::"],
    },
}  # fmt: skip

# The packages that tests/run.sh builds together.
MEMBERS = ["--package", "redquorum", "--package", "redquorum-cli", "--package", "redquorum-tests"]

SELECTOR = """
/// Returns the number of the mutant that this run of the tests selects.
pub(crate) fn selected_mutant() -> usize {
    static SELECTED: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| {
        std::env::var("REDQUORUM_MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(usize::MAX)
    });
    *SELECTED
}
"""

# A mutant without an end may also allocate without an end.
MAX_MEMORY = 6 << 30


def target():
    metadata = subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT)
    return Path(json.loads(metadata)["target_directory"]) / "mutants"


class Room:
    def __init__(self, name):
        self.name = name
        self.files, self.parts, tests = (ROOMS[name][key] for key in ("files", "parts", "tests"))
        # Slow tests run only if the other tests pass.
        self.tests = [tests, ROOMS[name]["slow_tests"]] if "slow_tests" in ROOMS[name] else [tests]
        self.work = target() / name
        # Optimization costs more time than it saves, except for the tests with simulated time of the whole library.
        self.opt_level = "0" if self.parts else "1"
        self.built = target().parent  # where most dependencies are compiled already
        self.work.mkdir(parents=True, exist_ok=True)

    def copy(self):
        """Copies the workspace with only this room. The sources get new times, because cargo compares the times."""
        shutil.copy(ROOT / "Cargo.lock", self.work)
        # The version makes the room another package for cargo, which otherwise would mix up their builds.
        manifest = (ROOT / "Cargo.toml").read_text()
        build = "+" + self.name.replace("_", "-")
        manifest = re.sub(r'(?m)^(package = [{] version = "[0-9.]+)', rf"\g<1>{build}", manifest, count=1)
        (self.work / "Cargo.toml").write_text(manifest)
        for name in ("benches", "cli", "examples", "tests"):
            shutil.copytree(ROOT / name, self.work / name, dirs_exist_ok=True)
        # cargo also builds the library of the package of tests. The library must not need the rest of the sources, and
        # a dependency on the room would be a build of the room without its tests.
        (self.work / "tests/support/mod.rs").write_text("//! No fixture.\n")
        manifest = self.work / "tests/Cargo.toml"
        manifest.write_text(re.sub(r"(?m)^redquorum = .*\n", "", manifest.read_text()))
        shutil.rmtree(self.work / "src", ignore_errors=True)
        if self.parts is None:
            shutil.copytree(ROOT / "src", self.work / "src", copy_function=shutil.copy)
            return
        for part in self.parts:
            source, copy = ROOT / "src" / part, self.work / "src" / part
            copy.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, copy, copy_function=shutil.copy)
            else:
                shutil.copy(source, copy)
        shutil.copy(ROOT / f"tests/mutants/{self.name}.rs", self.work / "src/lib.rs")

    def cargo(self, *arguments):
        """Runs cargo, and returns its success and its messages. The dependencies are those of other builds."""
        command = ["cargo", *arguments, *MEMBERS, "--lib", "--all-features", "--message-format", "json"]
        environment = os.environ | {"CARGO_TARGET_DIR": str(self.built), "CARGO_PROFILE_DEV_OPT_LEVEL": self.opt_level}
        run = subprocess.run(command, cwd=self.work, env=environment, stdout=subprocess.PIPE, text=True)
        return run.returncode == 0, [json.loads(line) for line in run.stdout.splitlines() if line[:1] == "{"]

    def build(self):
        """Builds the tests, and returns the program; None if the build fails."""
        is_built, messages = self.cargo("test", "--no-run")
        programs = {message["target"]["name"]: message["executable"] for message in messages if message.get("executable")}
        return programs["redquorum"] if is_built else None


def generate(room):
    """Returns the mutants that cargo-mutants generates. A mutant's number is its place in the list."""
    command = ["cargo", "mutants", "--list", "--json", "--file", f"{room.files}/**"]
    mutants = json.loads(subprocess.check_output(command, cwd=ROOT))
    for number, mutant in enumerate(mutants):
        mutant["number"] = number
    return mutants


def offset(lines, place):
    return sum(len(line) for line in lines[: place["line"] - 1]) + place["column"] - 1


def body(text, start, end):
    """Returns the place behind the `{` of a function's body: the first outside of comments and parentheses."""
    depth, is_signature = 0, False
    tokens = re.compile(r'//[^\n]*|#\[[^\n]*\]|"(?:\\.|[^"\\])*"|\bfn\b|[(){}\[\]]', re.S)
    for token in tokens.finditer(text, start, end):
        match token.group():
            case "fn":
                is_signature = True
            case "(" | "[":
                depth += 1
            case ")" | "]":
                depth -= 1
            case "{" if depth == 0 and is_signature:
                return token.end()
    raise ValueError(text[start:end])


def is_selectable(mutant, text, lines):
    """Whether a variable can select the mutant."""
    if mutant["function"] is None:
        return False
    span = mutant["function"]["span"]
    start = offset(lines, span["start"])
    signature = text[start : body(text, start, offset(lines, span["end"]))]
    signature = re.sub(r"//[^\n]*", "", signature)
    return not re.search(r"\bconst\s+fn\b|->\s*impl\b", signature)


def combine(text, mutants):
    """Returns the text of a file with all mutants, and the range of lines of each mutant."""
    lines = text.splitlines(keepends=True)
    functions = {}
    for mutant in mutants:
        span = mutant["function"]["span"]
        place = (offset(lines, span["start"]), offset(lines, span["end"]))
        functions.setdefault(place, []).append(mutant)
    # The mutants of a function inside of another function stand beside the outer function.
    for inner in sorted(functions):
        outer = [place for place in functions if place[0] < inner[0] and inner[1] <= place[1]]
        if outer:
            functions[min(outer)] += functions.pop(inner)
    combined, at, ranges = "", 0, []
    for (start, end), here in sorted(functions.items()):
        first, last = body(text, start, end), end - 1
        combined += text[at:first] + "match crate::selected_mutant() {\n"
        for mutant in here:
            begin, finish = (offset(lines, mutant["span"][side]) for side in ("start", "end"))
            changed = text[first:begin] + mutant["replacement"] + text[finish:last]
            line = combined.count("\n") + 1
            combined += f"{mutant['number']} => {{ {changed}\n}}\n"
            ranges.append((line, combined.count("\n"), mutant["number"]))
        combined += "_ => {" + text[first:last] + "\n}\n}\n"
        at = last
    return combined + text[at:], ranges


def check_combined(room, mutants, unviable):
    """Compiles a copy with all mutants but the unviable ones, without generating code."""
    room.copy()
    with open(room.work / "src/lib.rs", "a") as root:
        root.write(SELECTOR)
    ranges = {}
    for file in sorted({mutant["file"] for mutant in mutants}):
        text = (ROOT / file).read_text()
        here = [mutant for mutant in mutants if mutant["file"] == file and mutant["number"] not in unviable]
        combined, ranges[file] = combine(text, here)
        (room.work / file).write_text(combined)
    return *room.cargo("check", "--profile", "test"), ranges


def build_combined(room, mutants, unviable):
    """Builds a copy with all mutants but the unviable ones, which the errors of the compiler name."""
    for attempt in range(20):
        is_right, messages, ranges = check_combined(room, mutants, unviable)
        if is_right:
            return room.build()
        wrong = set()
        for message in messages:
            if message["reason"] != "compiler-message" or message["message"]["level"] != "error":
                continue
            found = set()
            for span in message["message"]["spans"]:
                # An error inside of a macro is at the place of its use.
                while span["expansion"] and not span["file_name"].startswith("src/"):
                    span = span["expansion"]["span"]
                if not span["is_primary"]:
                    continue
                for begin, end, number in ranges.get(span["file_name"], []):
                    if begin <= span["line_start"] <= end:
                        found.add(number)
            if not found and message["message"]["spans"]:
                print(message["message"]["rendered"], file=sys.stderr)
            wrong |= found
        if not wrong:
            sys.exit("the combined build fails outside of the mutants")
        say(f"{room.name}: round {attempt + 1}: {len(wrong)} mutants do not compile")
        unviable |= wrong
    sys.exit("the combined build still fails")


def say(text):
    print(text, file=sys.stderr, flush=True)


def run_all_tests(program, room, number, timeout):
    """Runs the tests with a mutant, until the first failure. Returns the result, and the test that failed."""
    for tests in room.tests:
        result, test = run_tests(program, tests, number, timeout)
        if result != "missed":
            return result, test
    return "missed", None


def run_tests(program, tests, number, timeout):
    # A fixed seed, so that each run tries the same cases.
    environment = os.environ | {
        "REDQUORUM_MUTANT": str(number), "RUST_BACKTRACE": "0", "PROPTEST_RNG_SEED": "1",
        "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "true",
    }
    process = subprocess.Popen(
        [program, *tests], env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY)),
    )  # fmt: skip
    is_late = threading.Event()

    def stop():
        is_late.set()
        process.kill()

    timer = threading.Timer(timeout, stop)
    timer.start()
    failed = None
    for line in process.stdout:
        if found := re.match(r"test (\S+).* FAILED$", line):
            failed = found.group(1)
            process.kill()
            break
    process.stdout.close()
    status = process.wait()
    timer.cancel()
    if failed:
        return "caught", failed
    if is_late.is_set():
        return "timeout", None
    return ("missed", None) if status == 0 else ("caught", f"the process ended with {status}")


def read_results(room):
    path = room.work / "results.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {result["name"]: result for result in map(json.loads, lines)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("room", choices=[*ROOMS, "check"])
    parser.add_argument("--part", default="1/1", help="the part of the mutants, such as 1/4")
    parser.add_argument("--again", choices=["missed", "timeout", "all"], help="forget these results first")
    parser.add_argument("--jobs", type=int, default=2, help="the number of mutants that run at a time")
    options = parser.parse_args()
    if options.room == "check":
        for name in ("algorithm", "node_state"):
            room = Room(name)
            room.copy()
            program = room.build() or sys.exit(f"{name} does not compile alone")
            for tests in room.tests:
                subprocess.run([program, *tests], check=True, cwd=room.work)
        return
    if subprocess.run(["cargo", "mutants", "--version"], capture_output=True).returncode:
        subprocess.run(["cargo", "install", "--locked", "cargo-mutants"], check=True)

    room = Room(options.room)
    mutants = generate(room)
    results = read_results(room)
    if options.again:
        results = {name: result for name, result in results.items() if options.again not in ("all", result["result"])}
    path = room.work / "results.jsonl"
    path.write_text("".join(json.dumps(result) + "\n" for result in results.values()))
    written = threading.Lock()

    def record(mutant, result, test=None, seconds=0.0):
        line = {"name": mutant["name"], "result": result, "test": test, "seconds": round(seconds, 1)}
        with written, open(path, "a") as file:
            file.write(json.dumps(line) + "\n")
            results[mutant["name"]] = line
            if result in ("missed", "timeout"):
                say(f"{result}: {mutant['name']}")

    texts = {file: (ROOT / file).read_text() for file in {mutant["file"] for mutant in mutants}}
    selectable, other = [], []
    for mutant in mutants:
        text = texts[mutant["file"]]
        (selectable if is_selectable(mutant, text, text.splitlines(keepends=True)) else other).append(mutant)

    known = {mutant["number"] for mutant in selectable if results.get(mutant["name"], {}).get("result") == "unviable"}
    unviable = set(known)
    program = build_combined(room, selectable, unviable)
    for mutant in selectable:
        if mutant["number"] in unviable - known:
            record(mutant, "unviable")
    began = time.monotonic()
    result, test = run_all_tests(program, room, "none", 3600)
    if result != "missed":
        sys.exit(f"without a mutant, the tests fail: {test}")
    baseline = time.monotonic() - began
    timeout = 20 + 10 * baseline
    say(f"{room.name}: {len(mutants)} mutants; the tests take {baseline:.1f} s, and time out after {timeout:.0f} s")

    part, parts = map(int, options.part.split("/"))
    chosen = [mutant for mutant in mutants if mutant["number"] % parts == part - 1]
    rest = [mutant for mutant in chosen if mutant["name"] not in results]

    def run(mutant, program):
        began = time.monotonic()
        result, test = run_all_tests(program, room, mutant["number"], timeout)
        record(mutant, result, test, time.monotonic() - began)

    with ThreadPoolExecutor(options.jobs) as pool:
        list(pool.map(lambda mutant: run(mutant, program), [mutant for mutant in rest if mutant in selectable]))
    for mutant in [mutant for mutant in rest if mutant in other]:
        text = texts[mutant["file"]]
        lines = text.splitlines(keepends=True)
        begin, end = (offset(lines, mutant["span"][side]) for side in ("start", "end"))
        room.copy()
        (room.work / mutant["file"]).write_text(text[:begin] + mutant["replacement"] + text[end:])
        own = room.build()
        if own:
            run(mutant, own)
        else:
            record(mutant, "unviable")

    counts = {}
    for mutant in chosen:
        result = results[mutant["name"]]["result"]
        counts[result] = counts.get(result, 0) + 1
    print(f"{room.name}: {len(chosen)} mutants: " + ", ".join(f"{counts[result]} {result}" for result in sorted(counts)))
    for mutant in chosen:
        if results[mutant["name"]]["result"] in ("missed", "timeout"):
            print(results[mutant["name"]]["result"], mutant["name"])


if __name__ == "__main__":
    main()
