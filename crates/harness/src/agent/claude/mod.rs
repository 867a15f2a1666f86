//! `claude`: Claude Code, by its `stream-json` on both sides.
//!
//! One process for one prompt, in a session of its own or in one that is kept. Its standard input stays open until the result has come, so that what
//! it asks (may it use this tool?) can be answered, and so that it can be interrupted in a way that
//! still tells what it cost. What a line says is in `parse`, what the whole comes to in `end`, what
//! it used in `usage`, what it may do in `permission`.

mod end;
mod heard;
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
use end::Signs;
use heard::Heard;
use permission::Permission;
use usage::Costs;

/// What a user may say about Claude Code: `[agents.claude]` in the configuration.
#[derive(Debug, Clone, Default)]
pub struct ClaudeSettings {
    /// The program, split into words as POSIX does; `claude` from the `PATH` without it.
    pub command: Option<String>,
    /// Further arguments, after ours.
    pub args: Vec<String>,
    /// The model to ask for.
    pub model: Option<String>,
    /// Variables beyond the usual ones: `NAME`, `PREFIX_*` or `NAME=value`.
    pub env: Vec<String>,
    /// Bypass all permissions.
    pub yolo: bool,
    /// Tokens of the context, until Claude Code says so itself.
    pub context_window: Option<u64>,
    /// Part of its context that it may use before it is asked to hand over to a fresh one.
    pub context_threshold: Option<f64>,
    /// In place of the limit of the execution.
    pub stall: Option<Duration>,
    /// The user has a price for tokens: what Claude Code says of money is not told.
    pub is_priced: bool,
    /// Gives it the harness's own tools.
    pub tools: Option<ToolServer>,
}

/// The real thing, or whatever speaks like it.
#[derive(Debug, Clone)]
pub struct ClaudeAgent {
    words: Vec<String>,
    allowed: Allowed,
    /// What the configuration sets.
    variables: Vec<(OsString, OsString)>,
    model: Option<String>,
    args: Vec<String>,
    permission: Permission,
    stall: Option<Duration>,
    costs: Costs,
    threshold: Option<f64>,
    /// Tokens of the context; 0 while nobody said. An execution hears it with its result, the next
    /// one knows it from the start.
    window: Arc<AtomicU64>,
    tools: Option<ToolServer>,
}

impl ClaudeAgent {
    /// Checks the words of the command; nothing is started.
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
        // It tells what it cost only when it is done, so it has to keep to the budget by itself.
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

    /// Claude Code refuses the bypass as root, unless it is told that it is in a sandbox.
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
        let mut heard = Heard::new(self.costs, self.window.load(Ordering::Relaxed), self.threshold);
        let ran = match converse(spec, &prompt, execution, &mut heard).await? {
            Err(end) => return Ok(end),
            Ok(ran) => ran,
        };
        if heard.window > 0 {
            self.window.store(heard.window, Ordering::Relaxed);
        }
        if let Some(by) = ran.finished.stopped_by {
            return Ok(End::Stopped { by });
        }
        let outcome = heard.outcome();
        let outcome =
            outcome.map(|outcome| outcome.in_words(|text| ran.redactor.text(text).into()));
        let signs = Signs {
            outcome: outcome.as_ref(),
            api_error: heard.api_error.as_deref(),
            limit_until: heard.limit_until,
            noise_lines: heard.noise_lines,
            missed_lines: heard.missed_lines,
            exit: ran.finished.exit,
            crash: ran.improper(),
            usage: heard.account.all(),
        };
        Ok(signs.end())
    }
}

/// Tokens of the context of a model, where nobody has told.
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
