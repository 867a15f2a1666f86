//! The things that a state root would run on this machine, item by item: for a person to read
//! before it is trusted, and for comparison with what was trusted.
//!
//! It reads the current files and judges nothing. For a ledger that no longer parses, it shows what
//! it can.

mod ledger;

use std::{collections::BTreeSet, ffi::OsStr, fs, io, io::Read, path::Path};

use harness::{
    home::{Home, folder::Folder},
    workspace::glance,
};
use harness_core::{
    command::{Edit, EditPhase},
    notify::masked,
    plan::Plan,
    trust::{Digest, Item, Kind, Origin},
};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::{
    failure::{Failure, Result},
    root::StateRoot,
};

/// Keys of harness.toml that choose no program, no environment, no port and no secret. A key that
/// is not listed here is an item, so that a new one is not forgotten. Of `validation`, the command
/// is an item.
const HARMLESS: [&str; 11] = [
    "require_validation",
    "promise_match",
    "stall_limit",
    "stall_seconds",
    "context_threshold",
    "protected",
    "protect",
    "limits",
    "validation",
    "git",
    "keep",
];
/// The number of tasks whose instructions are shown, and the size of each.
const INSTRUCTIONS_SHOWN: usize = 10;
const INSTRUCTIONS_CHARACTERS: usize = 300;

/// Distinct items, in the order of the files.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct WouldRun {
    pub(crate) items: Vec<Item>,
}

impl WouldRun {
    /// Returns all items, including the content filters of git.
    pub(crate) fn in_root(root: &StateRoot) -> Result<Self> {
        let mut found = match root.backing().is_files() {
            true => Self::in_file(&root.ledger())?,
            // It is trusted as a whole, and nothing is connected before that.
            false => Self::default(),
        };
        found.items.extend(Self::beside_the_ledger(root).items);
        let filters = glance::filters(root.path()).into_iter();
        found.items.extend(filters.map(|filter| item(Kind::Filter, &filter)));
        Ok(found)
    }

    fn in_file(path: &Path) -> Result<Self> {
        let bytes = regular(path)?
            .ok_or_else(|| Failure::file("read", path, &io::ErrorKind::NotFound.into()))?;
        ledger::items(&bytes)
            .map_err(|why| Failure::config(format!("{} is not JSON: {why}", path.display())))
    }

    /// Returns the items that a pull could have brought, for comparison. A ledger that cannot be
    /// read counts as one item, because the backup that replaces it was not compared.
    pub(crate) fn to_compare(root: &StateRoot) -> Self {
        let mut found = match regular(&root.ledger()) {
            Ok(Some(bytes)) => {
                let unreadable = |_| Self { items: vec![unreadable(&bytes)] };
                ledger::items(&bytes).unwrap_or_else(unreadable)
            }
            Ok(None) => Self::default(),
            Err(_) => Self { items: vec![unreadable(&[])] },
        };
        found.items.extend(Self::beside_the_ledger(root).items);
        found
    }

    /// Returns the items of the script, settings and prompts, which can exist before the ledger.
    pub(crate) fn beside_the_ledger(root: &StateRoot) -> Self {
        let mut items = Self::init_script(root).items;
        items.extend(Self::settings(root).items);
        items.extend(prompts(&root.home().prompts()));
        Self { items }
    }

    /// Returns the item of the script alone, if there is one.
    pub(crate) fn init_script(root: &StateRoot) -> Self {
        let bytes = content(&root.home().init_script());
        let items = bytes.map(|bytes| file(Kind::InitScript, Home::INIT_SCRIPT, &bytes));
        Self { items: items.into_iter().collect() }
    }

    /// Returns the check in harness.toml, if it has one.
    pub(crate) fn usual_check(root: &StateRoot) -> Option<Item> {
        let bytes = content(&root.home().config())?;
        usual_check(&String::from_utf8_lossy(&bytes).parse::<toml::Table>().ok()?)
    }

    /// Returns the items of harness.toml.
    pub(crate) fn settings(root: &StateRoot) -> Self {
        Self { items: in_configuration(&root.home().config()) }
    }

    /// Returns the items that an edit of a task adds.
    pub(crate) fn of_edit(edit: &Edit) -> Self {
        let texts = [
            (Kind::Check, &edit.validation_command),
            (Kind::Cleanup, &edit.cleanup),
            (Kind::Instructions, &edit.instructions),
        ];
        let texts = texts.into_iter().filter_map(|(kind, text)| Some((kind, text.as_deref()?)));
        Self { items: texts.map(|(kind, text)| item(kind, text)).collect() }
    }

    /// Returns the item of the gate that an edit of a phase adds.
    pub(crate) fn of_phase(edit: &EditPhase) -> Self {
        let gate = edit.gate.iter().filter(|command| !command.trim().is_empty());
        Self { items: gate.map(|command| item(Kind::Gate, command)).collect() }
    }

    /// Returns the items that a plan adds, without those that the plan has from another tool.
    pub(crate) fn of_plan(plan: &Plan) -> Self {
        let mut items = Vec::new();
        for task in plan.tasks.values().filter(|task| task.source.is_none()) {
            let check = task.validation.as_ref().map(|validation| &validation.command);
            let texts = [
                (Kind::Check, check),
                (Kind::Cleanup, task.cleanup.as_ref()),
                (Kind::Instructions, task.instructions.as_ref()),
            ];
            let texts = texts.into_iter().filter_map(|(kind, text)| Some((kind, text?)));
            items.extend(texts.map(|(kind, text)| item(kind, text)));
        }
        let gates = plan.phases.iter().flatten().filter_map(|phase| phase.gate.as_ref());
        items.extend(gates.map(|gate| item(Kind::Gate, gate)));
        Self::distinct(items)
    }

    /// Keeps each item once. One that is also in the file itself does not count as imported.
    fn distinct(mut items: Vec<Item>) -> Self {
        let in_file = items.iter().filter(|item| item.origin == Origin::File);
        let in_file: BTreeSet<Digest> = in_file.map(|item| item.digest).collect();
        let mut seen = BTreeSet::new();
        items.retain(|item| seen.insert(item.digest));
        for item in items.iter_mut().filter(|item| in_file.contains(&item.digest)) {
            item.origin = Origin::File;
        }
        Self { items }
    }

    /// Returns whether `harness import` brought this item.
    pub(crate) fn imported(root: &StateRoot, item: &Item) -> bool {
        let found = Self::to_compare(root).items;
        found.iter().any(|other| other.digest == item.digest && other.origin == Origin::Import)
    }

    fn shown(&self, kind: Kind) -> Vec<&str> {
        let items = self.items.iter().filter(|item| item.kind == kind);
        items.map(|item| item.shown.as_str()).collect()
    }

    /// Returns a line per item, under a heading for its purpose.
    pub(crate) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for kind in Kind::ALL {
            let items = self.shown(kind);
            if items.is_empty() {
                continue;
            }
            lines.push(title(kind, items.len()));
            let most = if kind == Kind::Instructions { INSTRUCTIONS_SHOWN } else { items.len() };
            // An item of several lines is marked, so that it does not look like a heading.
            let line = |text: &&str| format!("  {}", text.replace('\n', "\n    | "));
            lines.extend(items.iter().take(most).map(line));
            if items.len() > most {
                lines.push(format!("  … and {} more", items.len() - most));
            }
        }
        if lines.is_empty() {
            lines.push("nothing so far".to_owned());
        }
        lines
    }

    pub(crate) fn document(&self) -> Value {
        json!({
            "validation": self.shown(Kind::Check),
            "cleanup": self.shown(Kind::Cleanup),
            "gates": self.shown(Kind::Gate),
            "scripts": self.shown(Kind::InitScript),
            "configured": self.shown(Kind::Setting),
            "prompts": self.shown(Kind::Prompt),
            "filters": self.shown(Kind::Filter),
            "instructions": self.shown(Kind::Instructions).len(),
        })
    }
}

fn title(kind: Kind, count: usize) -> String {
    match kind {
        Kind::Check => "checks:".to_owned(),
        Kind::Cleanup => "cleanup after a failure:".to_owned(),
        Kind::Gate => "phase gates:".to_owned(),
        Kind::InitScript => "at every session start:".to_owned(),
        Kind::Setting => "set in harness.toml:".to_owned(),
        Kind::Prompt => "prompts that replace the built-in ones:".to_owned(),
        Kind::Filter => "content filters of git:".to_owned(),
        Kind::Instructions => format!(
            "instructions of tasks: {count} (agents follow them; the shell agent runs them)"
        ),
    }
}

/// Returns the item for a text that would run for one purpose.
pub(crate) fn item(kind: Kind, content: &str) -> Item {
    let digest = digest(kind, content.as_bytes());
    let shown = match kind {
        Kind::Instructions => shortened(content),
        _ => content.to_owned(),
    };
    Item { kind, shown, digest, origin: Origin::File }
}

/// Returns the item for a file. It shows the name, and its content counts.
fn file(kind: Kind, name: &str, content: &[u8]) -> Item {
    let lines = content.iter().filter(|byte| **byte == b'\n').count().max(1);
    let unit = if lines == 1 { "line" } else { "lines" };
    let whole = [name.as_bytes(), b"\0", content].concat();
    let shown = format!("{name} ({lines} {unit})");
    Item { kind, shown, digest: digest(kind, &whole), origin: Origin::File }
}

fn unreadable(bytes: &[u8]) -> Item {
    let shown = "harness-tasks.json, which cannot be read".to_owned();
    Item {
        kind: Kind::Check,
        shown,
        digest: digest(Kind::Check, &[b"unreadable\0", bytes].concat()),
        origin: Origin::File,
    }
}

fn digest(kind: Kind, content: &[u8]) -> Digest {
    let mut hash = Sha256::new();
    hash.update(kind.name());
    hash.update([0]);
    hash.update(content);
    let mut short = [0; 16];
    short.copy_from_slice(&hash.finalize()[..16]);
    Digest(short)
}

fn shortened(text: &str) -> String {
    let text = text.trim();
    if text.chars().count() <= INSTRUCTIONS_CHARACTERS {
        return text.to_owned();
    }
    let kept: String = text.chars().take(INSTRUCTIONS_CHARACTERS).collect();
    kept + " …"
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// Reads a file; `None` if there is none. A link is not followed, and a pipe or a device is never
/// opened.
fn regular(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let strange = || io::Error::other("it is not the path of a file");
    let name = path.file_name().and_then(OsStr::to_str).ok_or_else(strange)?;
    let folder = path.parent().ok_or_else(strange)?;
    // Folders in `.harness` are ours. The root itself may be reached by a link.
    let is_ours = folder.components().any(|part| part.as_os_str() == Home::FOLDER);
    let folder = if is_ours { Folder::find(folder)? } else { Some(Folder::open(folder)?) };
    let Some(mut file) = folder.map(|folder| folder.open_to_read(name)).transpose()?.flatten()
    else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// Returns the content of a file. An unreadable one counts as empty, because it exists and is an
/// item.
fn content(path: &Path) -> Option<Vec<u8>> {
    regular(path).unwrap_or_else(|_| Some(Vec::new()))
}

/// Returns the items that can be read. A broken harness.toml stops the commands that would run
/// something anyway.
fn in_configuration(path: &Path) -> Vec<Item> {
    let bytes = content(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let mut found = Vec::new();
    let setting = |text: String| item(Kind::Setting, &text);
    found.extend(usual_check(&table));
    for (key, value) in table.iter().filter(|(key, _)| !HARMLESS.contains(&key.as_str())) {
        match value {
            toml::Value::Table(agents) if key == "agents" => {
                found.extend(agents.iter().map(|(name, agent)| match agent {
                    toml::Value::Table(keys) => setting(format!("agent {name}: {}", pairs(keys))),
                    other => setting(format!("agent {name}: {other}")),
                }));
            }
            toml::Value::Table(keys) => found.push(setting(format!("{key}: {}", pairs(keys)))),
            toml::Value::Array(channels) if key == "notify" => {
                found.extend(channels.iter().map(notify_channel));
            }
            other => found.push(setting(format!("{key} = {other}"))),
        }
    }
    found
}

/// Returns the item of a channel for notifications. Of an address only the host is shown, but all of
/// it counts.
fn notify_channel(channel: &toml::Value) -> Item {
    let whole = format!("notify: {channel}");
    let shown = match channel {
        toml::Value::Table(keys) => {
            let mut keys = keys.clone();
            for key in ["url", "topic"] {
                if let Some(toml::Value::String(text)) = keys.get_mut(key) {
                    *text = masked(text);
                }
            }
            format!("notify: {}", pairs(&keys))
        }
        other => format!("notify: {other}"),
    };
    Item { shown, ..item(Kind::Setting, &whole) }
}

/// Returns the check for tasks that are added without one.
fn usual_check(table: &toml::Table) -> Option<Item> {
    let command = table.get("validation")?.get("command")?;
    Some(item(Kind::Setting, &format!("validation.command = {command}")))
}

fn pairs(table: &toml::Table) -> String {
    let pairs = table.iter().map(|(key, value)| format!("{key} = {value}"));
    pairs.collect::<Vec<_>>().join(", ")
}

fn prompts(folder: &Path) -> Vec<Item> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<_> =
        entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let named = names.iter().filter(|name| name.ends_with(".md"));
    let read = named.filter_map(|name| Some((name, content(&folder.join(name))?)));
    read.map(|(name, text)| file(Kind::Prompt, &format!("{}/{name}", Home::PROMPTS), &text))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_choose_programs_environments_and_ports_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("harness.toml");
        let shown = || in_configuration(&file).into_iter().map(|i| i.shown).collect::<Vec<_>>();
        assert!(shown().is_empty());
        let text = "agent = 'shell'\nnotify = 'curl x'\nprotect = 'flag'\n[limits]\nmax_cost = 1\n\
            [agents.mine]\ncommand = 'sh -c y'\nenv = ['LD_PRELOAD=x']\nyolo = true\n\
            [summarizer]\nagent = 'mine'\n[telemetry]\nport = 1\n\
            [validation]\nclean = true\ncommand = 'make test'\n";
        fs::write(&file, text).unwrap();
        assert_eq!(
            shown(),
            [
                "validation.command = \"make test\"",
                "agent = \"shell\"",
                "agent mine: command = \"sh -c y\", env = [\"LD_PRELOAD=x\"], yolo = true",
                "notify = \"curl x\"",
                "summarizer: agent = \"mine\"",
                "telemetry: port = 1",
            ]
        );
    }

    #[test]
    fn the_same_text_for_another_purpose_is_another_item() {
        let check = item(Kind::Check, "make");
        assert_ne!(check.digest, item(Kind::Cleanup, "make").digest);
        assert_eq!(check.digest, item(Kind::Check, "make").digest);
    }
}
