//! The table of events in PROTOCOL.md, compared with the events themselves.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the fields of each event in the table. An optional one has a `?` after its name.
fn of_the_table() -> BTreeMap<String, BTreeSet<String>> {
    let page = include_str!("../../../../PROTOCOL.md");
    let section = page.split("\n### Events\n").nth(1).unwrap().split("\n#").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let row = |line: &str| {
        let cells: Vec<_> = line.split(" | ").collect();
        let fields = cells[1].split(", ").map(|field| {
            let (name, kind) = field.trim_start_matches('`').split_once("` ").unwrap();
            if kind.ends_with('?') { format!("{name}?") } else { name.to_owned() }
        });
        (cells[0].trim_start_matches("| ").trim_matches('`').to_owned(), fields.collect())
    };
    rows.map(row).collect()
}

fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + &part[..1].to_uppercase() + &part[1..])
}

/// Returns the fields of each event in the declaration, in the same form.
fn of_the_code() -> BTreeMap<String, BTreeSet<String>> {
    let code = include_str!("../event.rs");
    let declared = code.split("pub enum Event {").nth(1).unwrap().split("\n}\n").next().unwrap();
    let mut events: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut kind = String::new();
    for line in declared.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("#[serde(rename = \"") {
            kind = name.split('"').next().unwrap().to_owned();
            events.entry(kind.clone()).or_default();
        } else if line.starts_with("#[serde(untagged") {
            break;
        } else if let Some((name, of)) = line.split_once(": ")
            && !line.starts_with("//")
        {
            let optional = if of.starts_with("Option<") { "?" } else { "" };
            events.get_mut(&kind).unwrap().insert(camel_case(name) + optional);
        }
    }
    events
}

#[test]
fn the_table_of_events_is_the_declaration() {
    let code = of_the_code();
    assert!(code.len() > 20, "{code:?}");
    assert_eq!(of_the_table(), code);
}
