//! The rule about modules: no cycle between the top-level modules of a crate, and in the library
//! every module uses only its own layer and those below it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::{Component, Path},
};

use crate::source::{SourcePath, paths};

/// The layers of `crates/harness`, the lowest first.
const LAYERS: &[&[&str]] = &[
    &["blocking", "clock", "event", "home", "http", "process", "queue", "shell"],
    &["check", "handoff", "prompts", "research", "store", "trajectory", "workspace"],
    &[
        "agent",
        "attachments",
        "channel",
        "conversation",
        "cx",
        "define",
        "drive",
        "error",
        "hold",
        "hub",
        "notify",
        "recorder",
        "repeat",
        "telemetry",
        "trace",
    ],
    &["flows"],
    &["project", "protocol", "view"],
    &["host"],
    &["client"],
];
const LAYERED: &str = "crates/harness/src";

/// The place where a module first uses another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    file: String,
    line: usize,
}

/// Top-level modules, and the modules that each of them uses.
#[derive(Debug, Default)]
struct Modules {
    all: BTreeSet<String>,
    edges: BTreeMap<String, BTreeMap<String, Place>>,
}

/// Complains about the modules of every crate among `files`, which are paths from the root of the
/// workspace with their text.
pub(crate) fn complaints(files: &[(String, String)]) -> Vec<String> {
    let mut crates: BTreeMap<String, Vec<(&str, &str)>> = BTreeMap::new();
    for (name, text) in files {
        let is_test = name.contains("/tests/") || name.ends_with("/tests.rs");
        if let Some(source) = source_of(name).filter(|_| name.ends_with(".rs") && !is_test) {
            crates.entry(source).or_default().push((name, text));
        }
    }
    let mut all = Vec::new();
    for (source, files) in &crates {
        let modules = Modules::of(source, files);
        all.extend(modules.cycles(source));
        if source == LAYERED {
            all.extend(modules.out_of_order());
        }
    }
    all
}

/// Returns the folder of the crate that a file belongs to: `…/src`, or `…/src/bin/<name>`.
fn source_of(name: &str) -> Option<String> {
    let (package, below) = name.split_once("/src/")?;
    let mut parts = below.split('/');
    Some(match (parts.next(), parts.next(), parts.next()) {
        (Some("bin"), Some(program), Some(_)) => format!("{package}/src/bin/{program}"),
        _ => format!("{package}/src"),
    })
}

/// Returns the name by which others import a crate.
fn crate_name(source: &str) -> String {
    let package = source.split("/src").next().unwrap_or(source);
    package.rsplit('/').next().unwrap_or(package).replace('-', "_")
}

/// Returns the module of a file, from the root of its crate; empty for the root itself.
fn module_of(source: &str, name: &str) -> Vec<String> {
    let below = name.strip_prefix(source).unwrap_or(name).trim_start_matches('/');
    let path = Path::new(below).with_extension("");
    let parts = path.components().filter_map(|part| match part {
        Component::Normal(part) => part.to_str().map(str::to_owned),
        _ => None,
    });
    let mut parts: Vec<String> = parts.collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

impl Modules {
    fn of(source: &str, files: &[(&str, &str)]) -> Self {
        let name = crate_name(source);
        let mut modules = Self::default();
        let mut exports = BTreeMap::new();
        for (file, _) in files {
            modules.all.extend(module_of(source, file).into_iter().next());
        }
        let roots = files.iter().filter(|(file, _)| module_of(source, file).is_empty());
        for (_, text) in roots {
            for SourcePath { segments, name, .. } in paths(text, &name) {
                let from = segments.into_iter().find(|part| part != "crate" && part != "self");
                exports.extend(from.filter(|from| modules.all.contains(from)).map(|m| (name, m)));
            }
        }
        for (file, text) in files {
            let module = module_of(source, file);
            let Some(top) = module.first() else { continue };
            for path in paths(text, &name) {
                let Some(to) = absolute(&module, &path.segments, &name) else { continue };
                let to = if modules.all.contains(&to) { Some(&to) } else { exports.get(&to) };
                let Some(to) = to.filter(|to| *to != top) else { continue };
                let edges = modules.edges.entry(top.clone()).or_default();
                let place = || Place { file: (*file).to_owned(), line: path.line };
                edges.entry(to.clone()).or_insert_with(place);
            }
        }
        modules
    }

    /// Returns the modules that `from` uses, directly or not, each with the one on the way to it.
    fn reached(&self, from: &str) -> BTreeMap<&str, &str> {
        let mut reached = BTreeMap::new();
        let mut waiting = VecDeque::from([from]);
        while let Some(module) = waiting.pop_front() {
            let Some((module, edges)) = self.edges.get_key_value(module) else { continue };
            for to in edges.keys() {
                if !reached.contains_key(to.as_str()) {
                    reached.insert(to.as_str(), module.as_str());
                    waiting.push_back(to);
                }
            }
        }
        reached
    }

    /// Returns one complaint for each set of modules that use each other, with a shortest cycle of
    /// it.
    fn cycles(&self, source: &str) -> Vec<String> {
        let reached: BTreeMap<&str, _> =
            self.edges.keys().map(|from| (from.as_str(), self.reached(from))).collect();
        let mut told = BTreeSet::new();
        let mut complaints = Vec::new();
        for (from, ways) in &reached {
            if !ways.contains_key(from) || told.contains(from) {
                continue;
            }
            let knot =
                ways.keys().filter(|to| reached.get(*to).is_some_and(|w| w.contains_key(from)));
            let knot: BTreeSet<&str> = knot.copied().collect();
            told.extend(knot.iter().copied());
            let all = knot.iter().copied().collect::<Vec<_>>().join(", ");
            let cycle = self.cycle(from, ways);
            complaints.push(format!("{source}: modules use each other ({all}):{cycle}"));
        }
        complaints
    }

    /// Returns the way from a module back to itself, edge by edge.
    fn cycle(&self, from: &str, ways: &BTreeMap<&str, &str>) -> String {
        let mut steps = Vec::new();
        let mut to = from;
        while let Some(before) = ways.get(to) {
            steps.push(self.edge(before, to));
            to = before;
            if to == from {
                break;
            }
        }
        steps.reverse();
        steps.concat()
    }

    fn edge(&self, from: &str, to: &str) -> String {
        let place = self.edges.get(from).and_then(|edges| edges.get(to));
        let place = place.map_or(String::new(), |at| format!(" ({}:{})", at.file, at.line));
        format!("\n    {from} uses {to}{place}")
    }

    fn out_of_order(&self) -> Vec<String> {
        let layer = |module: &str| LAYERS.iter().position(|layer| layer.contains(&module));
        let mut complaints = Vec::new();
        for module in self.all.iter().filter(|module| layer(module).is_none()) {
            complaints.push(format!(
                "{LAYERED}: the module {module} has no layer: give it one in xtask/src/layers.rs"
            ));
        }
        for (from, edges) in &self.edges {
            for (to, at) in edges {
                if layer(from).zip(layer(to)).is_some_and(|(from, to)| from < to) {
                    let Place { file, line } = at;
                    complaints.push(format!(
                        "{file}:{line}: {from} uses {to}, which is in a layer above it"
                    ));
                }
            }
        }
        complaints
    }
}

/// Returns the first segment from the root of the crate `name`; `None` if the path leads to another
/// crate.
fn absolute(module: &[String], segments: &[String], name: &str) -> Option<String> {
    match segments.first()?.as_str() {
        "super" => {
            let up = segments.iter().take_while(|part| *part == "super").count();
            let above = &module[..module.len().saturating_sub(up)];
            above.first().or_else(|| segments.get(up)).cloned()
        }
        "self" => module.first().cloned(),
        first if first == "crate" || first == name => segments.get(1).cloned(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints_about(files: &[(&str, &str)]) -> Vec<String> {
        let owned = files.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        complaints(&owned.collect::<Vec<_>>())
    }

    #[test]
    fn a_cycle_is_found_and_named_edge_by_edge() {
        let found = complaints_about(&[
            ("crates/x/src/lib.rs", "mod a; mod b; mod c;"),
            ("crates/x/src/a.rs", "use std::fmt;\nuse crate::{\n    b::{C, D},\n};"),
            ("crates/x/src/b/mod.rs", "use super::c;"),
            ("crates/x/src/c/d.rs", "fn f() { crate::a::g() }"),
        ]);
        let [cycle] = &found[..] else { panic!("{found:?}") };
        for edge in [
            "a uses b (crates/x/src/a.rs:3)",
            "b uses c (crates/x/src/b/mod.rs:1)",
            "c uses a (crates/x/src/c/d.rs:1)",
        ] {
            assert!(cycle.contains(edge), "{cycle}");
        }
    }

    #[test]
    fn a_cycle_through_a_name_that_the_root_exports_is_found() {
        let found = complaints_about(&[
            ("crates/x-y/src/lib.rs", "mod a; mod b; pub use b::{C as D};"),
            ("crates/x-y/src/a.rs", "use x_y::D;"),
            ("crates/x-y/src/b.rs", "use super::a::E;"),
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn tests_other_crates_and_paths_inside_of_a_module_make_no_edge() {
        let found = complaints_about(&[
            ("crates/x/src/lib.rs", "mod a; mod b;"),
            ("crates/x/src/a/mod.rs", "use crate::b::C; use self::d::E; mod d;"),
            ("crates/x/src/a/d.rs", "use super::F; use crate::a::G;"),
            ("crates/x/src/b.rs", "use other::a::H; #[cfg(test)] mod tests { use crate::a::F; }"),
            ("crates/x/src/b/tests.rs", "use crate::a::F;"),
            ("crates/x/tests/b.rs", "use crate::a::F;"),
            ("crates/x/src/bin/tool/main.rs", "mod b;"),
            ("crates/x/src/bin/tool/b.rs", "use crate::a::F;"),
        ]);
        assert_eq!(found, Vec::<String>::new());
    }

    #[test]
    fn in_the_library_a_lower_layer_uses_no_higher_one() {
        let found = complaints_about(&[
            ("crates/harness/src/lib.rs", "pub mod store; pub mod drive; mod thing;"),
            ("crates/harness/src/store/mod.rs", "\nuse crate::drive::Commit;"),
            ("crates/harness/src/drive.rs", "use crate::home::Home;"),
            ("crates/harness/src/home.rs", ""),
            ("crates/harness/src/thing.rs", ""),
        ]);
        let below =
            "crates/harness/src/store/mod.rs:2: store uses drive, which is in a layer above";
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("the module thing has no layer"), "{found:?}");
        assert!(found[1].starts_with(below), "{found:?}");
    }
}
