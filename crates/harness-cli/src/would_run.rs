//! What a state root would have this machine run, for a person to read before it is trusted.
//!
//! It reads the files as they are and judges nothing: a ledger that no longer parses shows what can
//! be shown.

use std::{collections::BTreeSet, fs, path::Path};

use serde::Serialize;
use serde_json::Value;

use crate::{
    failure::{Failure, Result},
    root::StateRoot,
};

/// Distinct commands, in the order in which the files have them.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct WouldRun {
    pub(crate) validation: Vec<String>,
    pub(crate) cleanup: Vec<String>,
    pub(crate) gates: Vec<String>,
    pub(crate) scripts: Vec<String>,
    /// What the project's harness.toml adds: agents and `notify`.
    pub(crate) configured: Vec<String>,
    /// How many tasks carry instructions: the `shell` agent runs them as they stand.
    pub(crate) instructions: usize,
}

impl WouldRun {
    pub(crate) fn in_root(root: &StateRoot) -> Result<Self> {
        let path = root.ledger();
        let bytes = fs::read(&path).map_err(|why| Failure::file("read", &path, &why))?;
        let ledger: Value = serde_json::from_slice(&bytes)
            .map_err(|why| Failure::config(format!("{} is not JSON: {why}", path.display())))?;
        let mut found = Self::in_ledger(&ledger);
        if root.path().join("harness-init.sh").exists() {
            found.scripts.push("harness-init.sh".to_owned());
        }
        found.configured = in_configuration(&root.path().join("harness.toml"));
        Ok(found)
    }

    fn in_ledger(ledger: &Value) -> Self {
        let tasks = list(&ledger["tasks"]);
        let phases = list(&ledger["phases"]);
        let has_instructions = |task: &&Value| task["instructions"].is_string();
        Self {
            validation: distinct(tasks.iter().map(|task| &task["validation"]["command"])),
            cleanup: distinct(tasks.iter().map(|task| &task["on_failure"]["cleanup"])),
            gates: distinct(phases.iter().map(|phase| &phase["gate"]["command"])),
            instructions: tasks.iter().filter(has_instructions).count(),
            ..Self::default()
        }
    }

    /// A line per command, under what it is for.
    pub(crate) fn lines(&self) -> Vec<String> {
        let groups = [
            ("checks", &self.validation),
            ("cleanup after a failure", &self.cleanup),
            ("phase gates", &self.gates),
            ("at every session start", &self.scripts),
            ("named in harness.toml", &self.configured),
        ];
        let mut lines = Vec::new();
        for (title, commands) in groups.into_iter().filter(|(_, commands)| !commands.is_empty()) {
            lines.push(format!("{title}:"));
            // A command of several lines is marked as one: it must not look like the headings.
            lines.extend(commands.iter().map(|c| format!("  {}", c.replace('\n', "\n    | "))));
        }
        if self.instructions > 0 {
            lines.push(format!(
                "instructions of tasks: {} (agents follow them; the shell agent runs them)",
                self.instructions
            ));
        }
        if lines.is_empty() {
            lines.push("nothing so far".to_owned());
        }
        lines
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn distinct<'a>(commands: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let texts = commands.filter_map(Value::as_str);
    texts.filter(|command| seen.insert(*command)).map(str::to_owned).collect()
}

/// Whatever can be read: a broken harness.toml stops the commands that would run something anyway.
fn in_configuration(path: &Path) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let Ok(table) = text.parse::<toml::Table>() else { return Vec::new() };
    let mut found: Vec<_> =
        table.get("notify").map(|c| format!("notify: {c}")).into_iter().collect();
    let agents = table.get("agents").and_then(toml::Value::as_table);
    for (name, agent) in agents.into_iter().flatten() {
        let command = agent.get("command").map(|command| format!("agent {name}: {command}"));
        let args = agent.get("args").map(|args| format!("agent {name}, arguments: {args}"));
        let free = agent.get("yolo").and_then(toml::Value::as_bool) == Some(true);
        let yolo = free.then(|| format!("agent {name}, free to do anything (yolo)"));
        found.extend([command, args, yolo].into_iter().flatten());
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn programs_of_the_configuration_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("harness.toml");
        assert!(in_configuration(&file).is_empty());
        let text = "notify = 'curl x'\n[agents.mine]\ncommand = 'sh -c y'\nyolo = true\n";
        fs::write(&file, text).unwrap();
        assert_eq!(
            in_configuration(&file),
            [
                "notify: \"curl x\"",
                "agent mine: \"sh -c y\"",
                "agent mine, free to do anything (yolo)"
            ]
        );
    }

    #[test]
    fn each_command_is_named_once() {
        let found = WouldRun::in_ledger(&json!({
            "tasks": [
                {"validation": {"command": "make test"}, "on_failure": {"cleanup": "make clean"}},
                {"validation": {"command": "make test"}, "instructions": "do it"},
                {"validation": {"command": "make lint"}},
                {"validation": null},
                "not a task",
            ],
            "phases": [{"name": "Build", "gate": {"command": "make gate"}}, {"name": "Rest"}],
        }));
        assert_eq!(found.validation, ["make test", "make lint"]);
        assert_eq!(
            (found.cleanup, found.gates),
            (vec!["make clean".into()], vec!["make gate".into()])
        );
        assert_eq!(found.instructions, 1);
        assert_eq!(WouldRun::in_ledger(&json!([])), WouldRun::default());
    }
}
