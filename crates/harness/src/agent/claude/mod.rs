//! `claude`: Claude Code, with its `stream-json` in both directions.
//!
//! There is one process for one prompt, in a new session or in a kept one. Its standard input stays
//! open until the result has come. So its requests for permission can be answered, and it can be
//! interrupted in a way that still reports its cost. `parse` parses a line, `end` determines the
//! end, `usage` counts the usage, and `permission` decides the permissions.

mod dialogue;
mod end;
mod parse;
mod permission;
mod usage;

use std::{
    ffi::OsString,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use harness_core::agent::{End, FailureKind};
use serde_json::json;

use super::{Agent, BadCommand, Execution, Prompt, ToolServer, supervise::converse};
use crate::{
    error::Result,
    process::{Allowed, Limits, Spec, Stdin},
};
use dialogue::ClaudeDialogue;
use end::Signs;
use permission::Permission;
use usage::Costs;

/// The settings of Claude Code: `[agents.claude]` in the configuration.
#[derive(Debug, Clone, Default)]
pub struct ClaudeSettings {
    /// The program, split into words as POSIX does. The default is `claude` from the `PATH`.
    pub command: Option<String>,
    /// Further arguments, after ours.
    pub args: Vec<String>,
    /// The model.
    pub model: Option<String>,
    /// Variables beyond the usual ones: `NAME`, `PREFIX_*` or `NAME=value`.
    pub env: Vec<String>,
    /// `true` to bypass all permissions.
    pub yolo: bool,
    /// The size of the context in tokens, until Claude Code reports it.
    pub context_window: Option<u64>,
    /// The fill level of its context at which it is asked to hand over to a fresh one.
    pub context_threshold: Option<f64>,
    /// The limit of silence, in place of the limit of the execution.
    pub stall: Option<Duration>,
    /// `true` if the user has set a price for tokens, so that the reported cost is ignored.
    pub is_priced: bool,
    /// The server of harness's own tools.
    pub tools: Option<ToolServer>,
}

/// Claude Code, or a program with the same protocol.
#[derive(Debug, Clone)]
pub struct ClaudeAgent {
    words: Vec<String>,
    allowed: Allowed,
    /// The variables that the configuration sets.
    variables: Vec<(OsString, OsString)>,
    model: Option<String>,
    args: Vec<String>,
    permission: Permission,
    stall: Option<Duration>,
    costs: Costs,
    threshold: Option<f64>,
    /// The size of the context in tokens; 0 while it is unknown. An execution learns it with its
    /// result, and the next one knows it from the start.
    window: Arc<AtomicU64>,
    tools: Option<ToolServer>,
}

impl ClaudeAgent {
    /// Checks the words of the command. Nothing is started.
    pub fn new(settings: ClaudeSettings) -> std::result::Result<ClaudeAgent, BadCommand> {
        let command = settings.command.as_deref().unwrap_or("claude");
        let words = super::command::split(command)?;
        let (set, names): (Vec<_>, Vec<_>) =
            settings.env.iter().partition(|entry| entry.contains('='));
        let variables: Vec<(&str, &str)> =
            set.iter().filter_map(|entry| entry.split_once('=')).collect();
        let set_names = variables.iter().map(|(name, _)| *name);
        let allowed = Allowed::claude().and(names.iter().map(|n| n.as_str()).chain(set_names));
        let asked = settings.model.as_deref().filter(|model| model.ends_with(parse::LARGE));
        let window = settings.context_window.or_else(|| asked.map(|_| usual_window(asked)));
        Ok(ClaudeAgent {
            words,
            allowed,
            variables: variables.into_iter().map(|(n, v)| (n.into(), v.into())).collect(),
            model: settings.model,
            args: settings.args,
            permission: if settings.yolo { Permission::Bypass } else { Permission::Least },
            stall: settings.stall,
            costs: if settings.is_priced { Costs::Priced } else { Costs::Told },
            threshold: settings.context_threshold,
            window: Arc::new(AtomicU64::new(window.unwrap_or_default())),
            tools: settings.tools,
        })
    }

    fn arguments(&self, prompt: &Prompt, environment: &[(OsString, OsString)]) -> Vec<OsString> {
        let mut words: Vec<OsString> = self.words.iter().skip(1).map(Into::into).collect();
        let fixed = ["-p", "--output-format", "stream-json", "--verbose"];
        words.extend(fixed.map(Into::into));
        words.extend(["--input-format", "stream-json"].map(Into::into));
        words.extend(self.permission.arguments().into_iter().map(Into::into));
        if let Some(model) = &self.model {
            words.extend(["--model".into(), model.into()]);
        }
        if let Some(kept) = &prompt.kept {
            words.extend(["--resume".into(), OsString::from(&kept.session)]);
        }
        // It reports its cost only at the end, so it must enforce the budget by itself.
        if let (Some(left), Costs::Told) = (prompt.cost_left_usd, self.costs) {
            words.extend(["--max-budget-usd".into(), format!("{left:.6}").into()]);
        }
        if let Some(tools) = &self.tools {
            words.extend(["--mcp-config".into(), tools.for_claude(environment).into()]);
        }
        words.extend(self.args.iter().map(Into::into));
        words
    }

    fn spec(&self, prompt: &Prompt, file: &Path) -> Spec {
        let mut environment = self.allowed.filter(prompt.environment.iter().cloned());
        environment.push(("HARNESS_PROMPT_FILE".into(), file.into()));
        Spec {
            program: self.words.first().map(Into::into).unwrap_or_default(),
            args: self.arguments(prompt, &environment),
            directory: prompt.work_tree.clone(),
            environment,
            stdin: Stdin::Open(format!("{}\n", user_message(&prompt.text)).into_bytes()),
            limits: Limits { stall: self.stall.or(prompt.limits.stall), ..prompt.limits.clone() },
            label: prompt.run_id.clone(),
            records: Some(prompt.records()),
        }
    }

    /// Returns whether Claude Code refuses the bypass. It does so as root, unless a variable
    /// declares a sandbox.
    fn refuses_bypass(&self, prompt: &Prompt) -> bool {
        let in_sandbox = self.allowed.allows("IS_SANDBOX")
            && prompt.environment.iter().any(|(name, value)| name == "IS_SANDBOX" && value == "1");
        self.permission == Permission::Bypass && rustix::process::geteuid().is_root() && !in_sandbox
    }
}

impl Agent for ClaudeAgent {
    type Input = Prompt;
    type Output = End;

    fn kind(&self) -> Option<&str> {
        Some("claude")
    }

    fn has_tools(&self) -> bool {
        self.tools.is_some()
    }

    async fn execute(&self, mut prompt: Prompt, execution: &mut Execution) -> Result<End> {
        prompt.environment.retain(|(name, _)| self.variables.iter().all(|(set, _)| set != name));
        prompt.environment.extend(self.variables.iter().cloned());
        if self.refuses_bypass(&prompt) {
            let detail = "Claude Code refuses to bypass permissions (`yolo = true`) as root: run \
                          harness as another user, or remove `yolo` from the agent's table in the \
                          configuration";
            return Ok(End::Failed { kind: FailureKind::Config, detail: detail.to_owned() });
        }
        let file = prompt.file("md", &prompt.text)?;
        let spec = self.spec(&prompt, &file);
        let mut dialogue =
            ClaudeDialogue::new(self.costs, self.window.load(Ordering::Relaxed), self.threshold);
        let ran = match converse(spec, &prompt, execution, &mut dialogue).await? {
            Err(end) => return Ok(end),
            Ok(ran) => ran,
        };
        if dialogue.window > 0 {
            self.window.store(dialogue.window, Ordering::Relaxed);
        }
        if let Some(by) = ran.finished.stopped_by {
            return Ok(End::Stopped { by });
        }
        let outcome = dialogue.outcome();
        let outcome =
            outcome.map(|outcome| outcome.in_words(|text| ran.redactor.text(text).into()));
        let signs = Signs {
            outcome: outcome.as_ref(),
            api_error: dialogue.api_error.as_deref(),
            limit_until: dialogue.limit_until,
            noise_lines: dialogue.noise_lines,
            missed_lines: dialogue.missed_lines,
            exit: ran.finished.exit,
            crash: ran.improper(),
            usage: dialogue.account.all(),
        };
        Ok(signs.end())
    }
}

/// Returns the usual size of the context of a model, if it was not reported.
fn usual_window(model: Option<&str>) -> u64 {
    let is_large = model.is_some_and(|model| model.ends_with(parse::LARGE));
    if is_large { 1_000_000 } else { 200_000 }
}

fn user_message(text: &str) -> serde_json::Value {
    json!({
        "type": "user",
        "message": { "role": "user", "content": [{ "type": "text", "text": text }] },
        "parent_tool_use_id": null,
        "session_id": "",
    })
}
