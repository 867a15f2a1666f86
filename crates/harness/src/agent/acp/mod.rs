//! `acp`: any program that speaks the Agent Client Protocol, wire version 1, on its standard
//! streams.
//!
//! There is one process, one session and one turn for one prompt. The agent handles files and
//! terminals itself. Its requests for permission are decided by [`permission`].

mod end;
mod permission;
mod session;
mod tools;
mod update;
mod usage;
pub mod wire;

use std::{ffi::OsString, path::Path};

use harness_core::agent::End;

use super::{
    Agent, BadCommand, Execution, Prompt, ToolServer, command::split, supervise::converse,
    threshold::Threshold,
};
use crate::{
    clock::{Clock as _, SystemClock},
    error::Result,
    process::{Allowed, Spec, Stdin},
};
use permission::Policy;
use session::{Session, Wanted};

/// An agent that is known by name: its command, and the variables that contain its keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownAcpAgent {
    /// The NAME of `--agent NAME`.
    pub name: &'static str,
    /// The program and its arguments.
    pub command: &'static str,
    /// The variables that it receives beyond the base.
    pub variables: &'static [&'static str],
}

/// All known agents.
const KNOWN: [KnownAcpAgent; 4] = [
    KnownAcpAgent { name: "gemini", command: "gemini --acp", variables: &["GEMINI_*", "GOOGLE_*"] },
    KnownAcpAgent {
        name: "opencode",
        command: "opencode acp",
        variables: &["OPENCODE_*", "ANTHROPIC_*", "OPENAI_*", "GEMINI_*", "OPENROUTER_*"],
    },
    KnownAcpAgent {
        name: "qwen",
        command: "qwen --acp",
        variables: &["QWEN_*", "DASHSCOPE_*", "OPENAI_*"],
    },
    KnownAcpAgent {
        name: "copilot",
        command: "copilot --acp",
        variables: &["COPILOT_*", "GH_TOKEN", "GITHUB_TOKEN"],
    },
];

impl KnownAcpAgent {
    /// Returns the agents that are known by name.
    #[must_use]
    pub fn all() -> &'static [KnownAcpAgent] {
        &KNOWN
    }

    /// Returns the agent with this name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static KnownAcpAgent> {
        KNOWN.iter().find(|known| known.name == name)
    }

    /// Returns the variables that it receives.
    #[must_use]
    pub fn allowed(&self) -> Allowed {
        Allowed::base().and(self.variables.iter().copied())
    }
}

/// A program that speaks ACP.
#[derive(Debug, Clone)]
pub struct AcpAgent {
    words: Vec<String>,
    model: Option<String>,
    window: Option<u64>,
    threshold: Threshold,
    is_priced: bool,
    leave: Leave,
    allowed: Allowed,
    tools: Option<ToolServer>,
}

/// The actions that it may take without asking a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leave {
    WorkTree,
    Anything,
}

impl AcpAgent {
    /// Creates an agent. `command` is the program with the arguments that make it speak ACP.
    /// `allowed` selects the variables that it receives.
    pub fn new(command: &str, allowed: Allowed) -> std::result::Result<AcpAgent, BadCommand> {
        Ok(AcpAgent {
            words: split(command)?,
            model: None,
            window: None,
            threshold: Threshold::default(),
            is_priced: false,
            leave: Leave::WorkTree,
            allowed,
            tools: None,
        })
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = String>) -> AcpAgent {
        self.words.extend(args);
        self
    }

    /// Sets the model, by the agent's own name for it.
    #[must_use]
    pub fn model(mut self, model: impl Into<String>) -> AcpAgent {
        self.model = Some(model.into());
        self
    }

    /// Sets the size of its context in tokens, for agents that report only the used part.
    #[must_use]
    pub fn context_window(mut self, tokens: u64) -> AcpAgent {
        self.window = Some(tokens);
        self
    }

    /// Asks it to hand over to a fresh context when this part of its context is full.
    #[must_use]
    pub fn context_threshold(mut self, part: f64) -> AcpAgent {
        self.threshold = Threshold(Some(part));
        self
    }

    /// Ignores the cost that the agent reports, because the user has set a price for tokens.
    #[must_use]
    pub fn priced(mut self) -> AcpAgent {
        self.is_priced = true;
        self
    }

    /// Gives it harness's own tools.
    #[must_use]
    pub fn tools(mut self, server: Option<ToolServer>) -> AcpAgent {
        self.tools = server;
        self
    }

    /// Allows everything that it asks for. It is only for users who explicitly configured this.
    #[must_use]
    pub fn allowing_anything(mut self) -> AcpAgent {
        self.leave = Leave::Anything;
        self
    }

    fn session(&self, prompt: &Prompt) -> Session {
        let environment = || self.allowed.filter(prompt.environment.iter().cloned());
        Session::new(Wanted {
            prompt: prompt.text.clone(),
            work_tree: prompt.work_tree.clone(),
            model: self.model.clone(),
            window: self.window,
            threshold: self.threshold,
            is_priced: self.is_priced,
            policy: match self.leave {
                Leave::WorkTree => Policy::Within(prompt.work_tree.clone()),
                Leave::Anything => Policy::Anything,
            },
            kept: prompt.kept.clone(),
            tools: self.tools.as_ref().map(|tools| tools.for_acp(&environment())),
        })
    }

    fn spec(&self, prompt: &Prompt, file: &Path) -> Spec {
        let mut environment = self.allowed.filter(prompt.environment.iter().cloned());
        environment.push(("HARNESS_PROMPT_FILE".into(), file.into()));
        let mut words = self.words.iter().map(OsString::from);
        let greeting = format!("{}\n", Session::greeting());
        Spec {
            program: words.next().unwrap_or_default(),
            args: words.collect(),
            directory: prompt.work_tree.clone(),
            environment,
            stdin: Stdin::Open(greeting.into_bytes()),
            limits: prompt.limits.clone(),
            label: prompt.run_id.clone(),
            records: Some(prompt.records()),
        }
    }
}

impl Agent for AcpAgent {
    type Input = Prompt;
    type Output = End;

    fn kind(&self) -> Option<&str> {
        Some("acp")
    }

    fn has_tools(&self) -> bool {
        self.tools.is_some()
    }

    async fn execute(&self, prompt: Prompt, execution: &mut Execution) -> Result<End> {
        let file = prompt.file("md", &prompt.text)?;
        let mut session = self.session(&prompt);
        let spec = self.spec(&prompt, &file);
        Ok(match converse(spec, &prompt, execution, &mut session).await? {
            Err(end) => end,
            Ok(ran) => end::end(&session, &ran, SystemClock.now()),
        })
    }
}
