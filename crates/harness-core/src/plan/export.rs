//! Renders plans as text, and the page that explains the format.

use serde_json::{Map, Value};

use super::{Plan, PlanPhase, PlanTask};
use crate::{TaskId, task::TaskSource};

impl Plan {
    /// Returns a text that parses to this plan, without its warnings.
    ///
    /// No text of the plan stands outside of the block, because a goal that contains a fence would
    /// be taken for the plan itself.
    pub fn to_markdown(&self) -> String {
        format!(
            "A plan for harness; `harness plan import FILE` reads it.\n\n```json\n{:#}\n```\n",
            self.to_value()
        )
    }

    /// Returns the payload alone.
    pub fn to_value(&self) -> Value {
        let tasks = self.tasks.iter().map(|(id, task)| (id.to_string(), task_value(task)));
        let mut plan = Map::new();
        plan.insert("goal".into(), self.goal.as_str().into());
        if let Some(phases) = &self.phases {
            plan.insert("phases".into(), phases.iter().map(phase_value).collect());
        }
        plan.insert("tasks".into(), Value::Object(tasks.collect()));
        Value::Object(plan)
    }

    /// Returns the output of `harness plan template`: the schema, with an example that is a valid
    /// plan.
    pub fn template() -> String {
        TEMPLATE.to_owned()
    }
}

fn phase_value(phase: &PlanPhase) -> Value {
    let mut fields = Map::new();
    fields.insert("name".into(), phase.name.as_str().into());
    if let Some(command) = &phase.gate {
        let mut gate = Map::new();
        gate.insert("command".into(), command.as_str().into());
        if let Some(seconds) = phase.gate_timeout_seconds {
            gate.insert("timeout_seconds".into(), seconds.into());
        }
        fields.insert("gate".into(), Value::Object(gate));
    }
    if phase.approve {
        fields.insert("approve".into(), true.into());
    }
    Value::Object(fields)
}

/// Writes only the fields that are set, so that an import uses defaults for the same fields.
fn task_value(task: &PlanTask) -> Value {
    let mut fields = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        if let Some(value) = value {
            fields.insert(key.to_owned(), value);
        }
    };
    let text = |text: &Option<String>| text.as_deref().map(Value::from);
    put("description", Some(task.description.as_str().into()));
    if !task.dependencies.is_empty() {
        let ids = task.dependencies.iter().map(TaskId::as_str);
        put("dependencies", Some(ids.collect()));
    }
    put("instructions", text(&task.instructions));
    put("role", text(&task.role));
    if !task.requires.is_empty() {
        put("requires", Some(task.requires.iter().map(String::as_str).collect()));
    }
    put("priority", text(&task.priority));
    put("phase", text(&task.phase));
    if !task.protected.is_empty() {
        put("protected", Some(task.protected.iter().map(String::as_str).collect()));
    }
    put("timeout_seconds", task.timeout_seconds.map(Value::from));
    put("max_attempts", task.max_attempts.map(Value::from));
    put(
        "validation",
        task.validation.as_ref().map(|validation| {
            let mut fields = Map::new();
            fields.insert("command".into(), validation.command.as_str().into());
            if let Some(seconds) = validation.timeout_seconds {
                fields.insert("timeout_seconds".into(), seconds.into());
            }
            for (key, flag) in [("clean", validation.clean), ("baseline", validation.baseline)] {
                if let Some(flag) = flag {
                    fields.insert(key.into(), flag.into());
                }
            }
            Value::Object(fields)
        }),
    );
    put("source", task.source.as_ref().map(source_value));
    put("completed", task.completed.then(|| true.into()));
    put("on_failure", text(&task.cleanup).map(|c| Map::from_iter([("cleanup".into(), c)]).into()));
    Value::Object(fields)
}

fn source_value(source: &TaskSource) -> Value {
    let mut fields = Map::new();
    fields.insert("kind".into(), source.kind.as_str().into());
    if let Some(path) = &source.path {
        fields.insert("path".into(), path.as_str().into());
    }
    fields.insert("key".into(), source.key.as_str().into());
    Value::Object(fields)
}

const TEMPLATE: &str = r#"# How to write a plan

A plan is one JSON object in a fenced block. Text around the block is ignored, and only the first
block counts. Instructions may hold fenced code. Import it with `harness plan import plan.md`
(`harness plan check plan.md` only checks it).

| field | | meaning |
|---|---|---|
| `goal` | required | what all tasks together are for |
| `tasks` | required | task id → task; within one priority, tasks are worked in this order |
| `description` | required | one line: the title of the task |
| `dependencies` | list of ids | tasks that must be completed first; no cycles |
| `instructions` | text | everything the agent needs to know; the agent sees nothing else of the plan |
| `role` | text | which kind of worker takes it, such as `backend`; none: any |
| `requires` | list of labels | labels that a worker must have to take it, such as `gpu` |
| `priority` | `P0` `P1` `P2` | `P0` first; `P1` if absent |
| `phases` | list | `name`, and at the end of a phase `gate` (`command`, `timeout_seconds`) must pass and, with `approve`, a person must agree; tasks of later phases wait; not with `--merge` |
| `validation` | `command`, `timeout_seconds`, `clean`, `baseline` | a shell command that exits 0 if and only if the task is done; `harness run` works only on tasks that have one; `clean`: in a clean checkout of the commit; `baseline`: also before the first attempt |
| `protected` | list of globs | files that an attempt must not change, such as the tests that judge it; besides `protected` of `harness.toml` |
| `on_failure` | `cleanup` | a shell command to run after a failed attempt was rolled back |
| `timeout_seconds` | number, 1 or more | how long one attempt may take |
| `max_attempts` | number, 1 or more | then it has failed for good; 3 if absent |
| `phase` | text | the name of the phase that it belongs to |
| `source` | `kind`, `path`, `key` | the place that `harness import` took it from |
| `completed` | `true` | it was done before it came here; it has no `validation` then |

Ids are 1 to 64 of `A-Z a-z 0-9 . _ -`, starting with a letter or digit. Unknown fields are left out
with a warning; anything else that is wrong refuses the whole plan.

```json
{
  "goal": "Users can log in and out",
  "tasks": {
    "login": {
      "description": "Add the login endpoint",
      "instructions": "POST /login takes name and password and answers a session cookie.\nThe handlers are in src/routes.",
      "role": "backend",
      "priority": "P0",
      "validation": { "command": "cargo test login", "timeout_seconds": 300 },
      "timeout_seconds": 1800
    },
    "logout": {
      "description": "Add the logout endpoint",
      "dependencies": ["login"],
      "instructions": "POST /logout ends the session.",
      "validation": { "command": "cargo test logout" },
      "protected": ["tests/logout.rs"],
      "on_failure": { "cleanup": "rm -rf tmp/sessions" },
      "max_attempts": 2
    }
  }
}
```
"#;
