//! No text makes an importer panic, and whatever it finds is a plan that a ledger takes.
//!
//! `HARNESS_FUZZ_SECONDS=60 cargo test -p harness-supervisor-core --test import fuzz` does the same
//! for that long with each importer.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use harness_core::{
    Command, Ledger, Timestamp,
    command::{Import, ImportMode, decide},
    import::{self, ImportChoice, ImportKind, ImportProgress, write_back},
    ledger::Head,
    plan::Plan,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::source;

/// Checks everything that must hold for any text. Returns whether it has tasks.
fn holds(kind: ImportKind, text: &str) -> bool {
    let source = source("specs/x/tasks.md", text);
    let choice = ImportChoice::default();
    let Ok(found) = import::read(kind, std::slice::from_ref(&source), &choice) else {
        return false;
    };
    let has_tasks = !found.tasks.is_empty();
    let names: BTreeSet<&str> = found.tasks.iter().map(|task| task.name.as_str()).collect();
    assert_eq!(names.len(), found.tasks.len(), "names are distinct");
    let open: BTreeSet<String> = found
        .tasks
        .iter()
        .filter(|task| task.progress == ImportProgress::Open && !task.marks.is_empty())
        .map(|task| task.source.key.clone())
        .collect();
    for mark in found.tasks.iter().flat_map(|task| &task.marks) {
        assert!(text.get(mark.place.clone()).is_some(), "a place is inside of the text");
    }
    let written = write_back(kind, &source, &choice, &open).unwrap();
    assert_eq!(written.marked.len(), open.len());
    if let Some(after) = &written.text {
        let again = super::read(kind, "specs/x/tasks.md", after).unwrap();
        let still = again.tasks.iter().filter(|task| open.contains(&task.source.key));
        assert!(still.into_iter().all(|task| task.progress == ImportProgress::Done));
    }
    let plan = found.into_plan(Some("true"));
    plan.check_titles().unwrap();
    assert_eq!(Plan::read(&plan.to_markdown()).unwrap().tasks, plan.tasks);
    if plan.check_graph(|_| false).is_ok() {
        let now = Timestamp::default();
        let ledger = Ledger::new(Head::new(now), Vec::new()).unwrap();
        let import = Import { plan, mode: ImportMode::Update, by: None };
        _ = decide(&ledger, now, &Command::Import(import)).unwrap();
    }
    has_tasks
}

/// Pieces that mean something to an importer.
const PIECES: &[&str] = &[
    "- [ ] ",
    "* [x] ",
    "- [X]",
    "\t",
    "\n",
    "\r\n",
    "  ",
    "## ",
    "### Task 1: a",
    "## 1. G\n",
    "## Phase 2: b\n",
    "1.1 ",
    "T012 ",
    "[P] ",
    "[US1] ",
    "(depends on T001, T2)",
    "```",
    "~~~\n",
    "<!--",
    "-->",
    "TXXX",
    "`cargo test`",
    "Run: `x`",
    "Expected: PASS",
    "Validate: `y`",
    "## Validation Commands\n",
    "{",
    "}",
    "[",
    "]",
    ":",
    ",",
    "\"",
    "\\",
    "\\u00e9",
    "null",
    "true",
    "false",
    "\"id\":",
    "1",
    "\"a\"",
    "\"title\":",
    "\"description\":",
    "\"passes\":",
    "\"status\":",
    "\"tasks\":",
    "\"subtasks\":",
    "\"dependencies\":",
    "\"depends_on_id\":",
    "\"type\":",
    "\"parent-child\"",
    "\"epic\"",
    "\"issue_type\":",
    "\"userStories\":",
    "\"features\":",
    "\"number\":",
    "\"state\":",
    "\"labels\":",
    "\"body\":",
    "\"master\":",
    "é",
    "\u{feff}",
    "\u{a0}",
    "日本",
    "x",
    "#",
    "*",
    "-",
    ".",
    "0",
    "9999999999999999999999",
    "1e999",
];

fn pieces() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..60).prop_map(|pieces| pieces.concat())
}

/// Objects with the fields that importers look for, with values of any kind.
fn objects() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "id",
        "title",
        "description",
        "status",
        "passes",
        "dependencies",
        "subtasks",
        "labels",
        "priority",
        "number",
        "state",
        "body",
        "parent",
        "issue_type",
        "steps",
        "dependsOn",
    ]);
    let value = prop::sample::select(vec![
        "1",
        "\"1\"",
        "\"a\"",
        "true",
        "false",
        "null",
        "[]",
        "[1,\"2\"]",
        "{}",
        "\"epic\"",
        "[{\"depends_on_id\":\"a\",\"type\":\"parent-child\"}]",
        "[{\"id\":1,\"title\":\"s\"}]",
        "\"closed\"",
        "\"done\"",
        "\"OPEN\"",
        "{\"number\":1}",
        "\"x\\ny\"",
    ]);
    let object = prop::collection::vec((key, value), 0..8).prop_map(|fields| {
        let fields: Vec<String> = fields.iter().map(|(k, v)| format!("\"{k}\": {v}")).collect();
        format!("{{{}}}", fields.join(", "))
    });
    let around = prop::sample::select(vec![
        ("[", ",", "]"),
        ("", "\n", "\n"),
        ("{\"userStories\": [", ",", "]}"),
        ("{\"features\": [", ",", "]}"),
        ("{\"tasks\": [", ",", "]}"),
        ("{\"master\": {\"tasks\": [", ",", "]}}"),
    ]);
    (around, prop::collection::vec(object, 0..6)).prop_map(|((open, between, close), objects)| {
        format!("{open}{}{close}", objects.join(between))
    })
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![pieces(), objects(), any::<String>()]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_tasks_or_a_problem(text in any_text()) {
        for kind in ImportKind::ALL {
            _ = holds(*kind, &text);
        }
    }
}

/// A golden file, and the name of its kind.
struct Sample {
    kind: String,
    text: String,
}

/// Returns the golden files, to change them at random.
fn corpus() -> Vec<Sample> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if entry.is_dir() { walk(&entry, found) } else { found.push(entry) }
        }
    }
    let mut files = Vec::new();
    let golden = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/import/golden"));
    walk(golden, &mut files);
    files.retain(|file| !file.to_string_lossy().ends_with(".expected.txt"));
    files.sort();
    let kind = |file: &Path| {
        let first = file.strip_prefix(golden).unwrap().iter().next().unwrap();
        first.to_string_lossy().into_owned()
    };
    let sample =
        |file: &PathBuf| Sample { kind: kind(file), text: fs::read_to_string(file).unwrap() };
    files.iter().map(sample).collect()
}

/// Changes values of a JSON text, so that it stays JSON. Of a text with an object on each line some lines
/// are kept, and few of them are changed.
fn with_other_values(text: &str, random: &mut Random) -> String {
    if let Ok(mut value) = serde_json::from_str::<Value>(text) {
        for _ in 0..random.below(4) {
            change_value(&mut value, random);
        }
        let pretty = random.below(2) == 0;
        return if pretty { format!("{value:#}") } else { value.to_string() };
    }
    let mut lines: Vec<String> =
        text.lines().filter(|_| random.below(3) > 0).map(str::to_owned).collect();
    for _ in 0..random.below(4) {
        let n = random.below(lines.len());
        if let Some(line) = lines.get_mut(n)
            && let Ok(mut value) = serde_json::from_str::<Value>(line)
        {
            change_value(&mut value, random);
            *line = value.to_string();
        }
    }
    lines.join("\n")
}

fn change_value(value: &mut Value, random: &mut Random) {
    let others = || {
        let numbers = [json!(0), json!(-1), json!(1.5), json!(u64::MAX)];
        let texts = [json!(""), json!("1"), json!("a-1.1"), json!("done"), json!("x\ny\u{0}`z`")];
        let more = [json!(null), json!(true), json!([]), json!({}), json!([1, "2", null, {}])];
        numbers.into_iter().chain(texts).chain(more).collect::<Vec<_>>()
    };
    match value {
        Value::Array(items) if !items.is_empty() && random.below(10) > 0 => {
            let n = random.below(items.len());
            match random.below(8) {
                0 => _ = items.remove(n),
                1 => items.insert(n, items[n].clone()),
                2 => items.truncate(n + 1),
                _ => change_value(&mut items[n], random),
            }
        }
        Value::Object(fields) if !fields.is_empty() && random.below(10) > 0 => {
            let key = fields.keys().nth(random.below(fields.len())).unwrap().clone();
            match random.below(8) {
                0 => _ = fields.remove(&key),
                _ => change_value(&mut fields[&key], random),
            }
        }
        _ => {
            let mut others = others();
            *value = others.swap_remove(random.below(others.len()));
        }
    }
}

/// A small generator of numbers, so that a seed repeats everything.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % (n.max(1) as u64)).unwrap()
    }
}

/// Cuts, repeats and inserts parts of a text.
fn changed(text: &str, random: &mut Random) -> String {
    let at = |text: &str, random: &mut Random| {
        let mut at = random.below(text.len() + 1);
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let begin = at(text, random);
    let mut text = text[begin..].to_owned();
    let keep = random.below(4000);
    let mut end = keep.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    for _ in 0..random.below(12) {
        let place = at(&text, random);
        match random.below(3) {
            0 => text.insert_str(place, PIECES[random.below(PIECES.len())]),
            1 => {
                let other = at(&text, random);
                let (a, b) = (place.min(other), place.max(other));
                if b - a < 80 {
                    text.replace_range(a..b, "");
                }
            }
            _ => {
                let other = at(&text, random);
                let part = text[place.min(other)..place.max(other)].to_owned();
                if part.len() < 500 {
                    text.insert_str(place, &part);
                }
            }
        }
    }
    text
}

#[test]
fn changed_files_of_the_tools_are_tasks_or_a_problem() {
    let seconds: Option<u64> =
        std::env::var("HARNESS_FUZZ_SECONDS").ok().and_then(|value| value.parse().ok());
    let corpus = corpus();
    for kind in ImportKind::ALL {
        let own: Vec<&Sample> = corpus.iter().filter(|of| of.kind == kind.name()).collect();
        let seed = 0x9e37_79b9_7f4a_7c15 ^ (*kind as u64 + 1);
        let mut random = Random(seed);
        let (start, mut count, mut read) = (Instant::now(), 0_u64, 0_u64);
        let more = |count: u64| match seconds {
            Some(seconds) => start.elapsed() < Duration::from_secs(seconds),
            None => count < 150,
        };
        while more(count) {
            let text = match random.below(8) {
                0 => (0..random.below(80)).map(|_| PIECES[random.below(PIECES.len())]).collect(),
                1 => changed(&corpus[random.below(corpus.len())].text, &mut random),
                2..5 => changed(&own[random.below(own.len())].text, &mut random),
                _ => with_other_values(&own[random.below(own.len())].text, &mut random),
            };
            let held = std::panic::catch_unwind(|| holds(*kind, &text));
            let Ok(was_read) = held else {
                panic!("{kind}, seed {seed:#x}, text {count}: {text:?}");
            };
            count += 1;
            read += u64::from(was_read);
        }
        // Texts that are refused at once would test little.
        assert!(read * 10 > count, "{kind}: only {read} of {count} texts were read");
        let took = start.elapsed();
        println!("{kind}: {count} texts in {took:?}, {read} of them with tasks, seed {seed:#x}");
    }
}
