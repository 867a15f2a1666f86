//! `codex`: OpenAI's Codex, one `codex exec` for one prompt.
//!
//! Its own sandbox lets it write only in the work tree, except `.git`, because harness makes the
//! commits. It reports its usage when the turn ends, so a budget stops it between turns.

mod end;
mod parse;
mod usage;

use std::{collections::BTreeMap, ffi::OsString, path::Path};

use harness_core::agent::{AgentEvent, End};

use super::{
    Agent, BadCommand, Execution, Prompt, ToolServer,
    command::split,
    supervise::{Dialogue, FINAL_BYTES, Standing, Voice, converse},
};
use crate::{
    clock::{Clock as _, SystemClock},
    error::Result,
    process::{Allowed, Spec, Stdin},
};
use end::Said;
use parse::{Item, Line, Tool, What};
use usage::Meter;

/// Codex, as the user has installed it.
#[derive(Debug, Clone)]
pub struct CodexAgent {
    words: Vec<String>,
    args: Vec<String>,
    model: Option<String>,
    sandbox: Sandbox,
    allowed: Allowed,
    tools: Option<ToolServer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sandbox {
    On,
    Bypassed,
}

impl CodexAgent {
    /// Creates an agent. `command` is the program, usually `codex`, with arguments that precede
    /// ours. `allowed` selects the variables that it receives: [`Allowed::codex`], and those that
    /// the user adds.
    pub fn new(command: &str, allowed: Allowed) -> std::result::Result<CodexAgent, BadCommand> {
        Ok(CodexAgent {
            words: split(command)?,
            args: Vec::new(),
            model: None,
            sandbox: Sandbox::On,
            allowed,
            tools: None,
        })
    }

    /// Adds arguments after ours.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = String>) -> CodexAgent {
        self.args.extend(args);
        self
    }

    /// Sets the model.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> CodexAgent {
        self.model = Some(model.into());
        self
    }

    /// Gives it harness's own tools.
    #[must_use]
    pub fn tools(mut self, server: Option<ToolServer>) -> CodexAgent {
        self.tools = server;
        self
    }

    /// Disables its sandbox and its questions. It is only for users who explicitly configured this.
    #[must_use]
    pub fn without_sandbox(mut self) -> CodexAgent {
        self.sandbox = Sandbox::Bypassed;
        self
    }

    /// Returns all arguments after the program.
    fn arguments(
        &self,
        work_tree: &Path,
        environment: &[(OsString, OsString)],
        thread: Option<&str>,
    ) -> Vec<OsString> {
        let mut all: Vec<OsString> = self.words.iter().skip(1).map(OsString::from).collect();
        all.extend(["exec", "--json", "-s", "workspace-write", "-C"].map(OsString::from));
        all.push(work_tree.into());
        if let Some(model) = &self.model {
            all.extend(["-m".into(), model.into()]);
        }
        if self.sandbox == Sandbox::Bypassed {
            all.push("--dangerously-bypass-approvals-and-sandbox".into());
        }
        if let Some(tools) = &self.tools {
            all.extend(tools.for_codex(environment));
        }
        all.extend(self.args.iter().map(OsString::from));
        if let Some(thread) = thread {
            all.extend(["resume", thread].map(OsString::from));
        }
        // The prompt is on standard input.
        all.push("-".into());
        all
    }

    fn spec(&self, prompt: &Prompt, file: &Path) -> Spec {
        let thread = prompt.kept.as_ref().map(|kept| kept.session.as_str());
        let mut environment = self.allowed.filter(prompt.environment.iter().cloned());
        environment.push(("HARNESS_PROMPT_FILE".into(), file.into()));
        Spec {
            program: self.words.first().map(OsString::from).unwrap_or_default(),
            args: self.arguments(&prompt.work_tree, &environment, thread),
            directory: prompt.work_tree.clone(),
            environment,
            stdin: Stdin::Bytes(prompt.text.clone().into_bytes()),
            limits: prompt.limits.clone(),
            label: prompt.run_id.clone(),
            records: Some(prompt.records()),
        }
    }
}

impl Agent for CodexAgent {
    type Input = Prompt;
    type Output = End;

    fn kind(&self) -> Option<&str> {
        Some("codex")
    }

    fn has_tools(&self) -> bool {
        self.tools.is_some()
    }

    async fn execute(&self, prompt: Prompt, execution: &mut Execution) -> Result<End> {
        let file = prompt.file("md", &prompt.text)?;
        let before = prompt.kept.as_ref().map(|kept| kept.used).unwrap_or_default();
        let mut turn = Turn { meter: Meter::new(before), ..Turn::default() };
        let spec = self.spec(&prompt, &file);
        Ok(match converse(spec, &prompt, execution, &mut turn).await? {
            Err(end) => end,
            Ok(ran) => end::end(&turn, &ran, SystemClock.now()),
        })
    }
}

/// The state of a turn.
#[derive(Debug, Default)]
struct Turn {
    /// The last message, or its end if it is long.
    final_text: String,
    said: Option<Said>,
    /// The last error that it reported, from which it may have recovered.
    complaint: Option<String>,
    meter: Meter,
    /// The running tools, by the id of their item.
    tools: BTreeMap<String, String>,
}

impl Dialogue for Turn {
    fn hear(&mut self, line: &str, voice: &mut Voice<'_>) {
        match parse::line(line) {
            Some(Line::ThreadStarted { thread_id }) => voice.tell(AgentEvent::Session(thread_id)),
            Some(Line::TurnCompleted { usage }) => {
                self.said = Some(Said::Completed);
                voice.tell(AgentEvent::Usage(self.meter.take(usage)));
            }
            Some(Line::TurnFailed { error }) => self.said = Some(Said::Failed(error.message)),
            Some(Line::Error(error)) => self.complaint = Some(error.message),
            Some(Line::ItemStarted { item }) => self.started(item, voice),
            Some(Line::ItemCompleted { item }) => self.completed(item, voice),
            Some(Line::Other) | None => {}
        }
    }

    fn is_busy(&self) -> bool {
        !self.tools.is_empty()
    }

    fn standing(&self) -> Standing {
        if self.said.is_some() { Standing::Over } else { Standing::Open }
    }
}

impl Turn {
    fn started(&mut self, item: Item, voice: &Voice<'_>) {
        let id = item.id.clone();
        if let What::Tool(tool) = item.what() {
            self.begin(id, &tool, voice);
        }
    }

    fn begin(&mut self, id: String, tool: &Tool, voice: &Voice<'_>) {
        let name = voice.text(&tool.name);
        let input = tool.input.as_ref().map(|input| voice.value(input));
        voice.tell(AgentEvent::ToolStart { name: name.clone(), input });
        self.tools.insert(id, name);
    }

    fn completed(&mut self, item: Item, voice: &Voice<'_>) {
        let id = item.id.clone();
        match item.what() {
            What::Message(text) => {
                voice.tell(AgentEvent::Text(voice.text(&text)));
                self.final_text = text;
                let surplus = self.final_text.len().saturating_sub(FINAL_BYTES);
                self.final_text.drain(..self.final_text.ceil_char_boundary(surplus));
            }
            What::Reasoning(text) => voice.tell(AgentEvent::Thinking(voice.text(&text))),
            What::Tool(tool) => {
                // Some tools are reported only when they are done.
                if !self.tools.contains_key(&id) {
                    self.begin(id.clone(), &tool, voice);
                }
                let name = self.tools.remove(&id).unwrap_or(tool.name);
                let result = tool.result.as_ref().map(|result| voice.value(result));
                voice.tell(AgentEvent::ToolEnd { name, result, is_error: tool.is_error });
            }
            What::Aside => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(agent: &CodexAgent, thread: Option<&str>) -> String {
        let words = agent.arguments(Path::new("/tree"), &[], thread);
        words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_command_line_is_what_codex_takes() {
        let agent = CodexAgent::new("npx codex", Allowed::codex()).unwrap();
        assert_eq!(line(&agent, None), "codex exec --json -s workspace-write -C /tree -");
        let agent = CodexAgent::new("codex", Allowed::codex()).unwrap();
        let full =
            agent.clone().model("m").without_sandbox().args(["-c".to_owned(), "a=1".to_owned()]);
        assert_eq!(
            line(&full, Some("t-1")),
            "exec --json -s workspace-write -C /tree -m m \
             --dangerously-bypass-approvals-and-sandbox -c a=1 resume t-1 -"
        );
        assert_eq!(CodexAgent::new(" ", Allowed::codex()).unwrap_err(), BadCommand::Empty);
    }
}
