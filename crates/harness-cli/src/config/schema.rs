//! Every key of `harness.toml`, with its type, default and meaning.

use std::{collections::BTreeMap, path::PathBuf};

use harness::{
    agent::KnownAcpAgent,
    workspace::{Bring, Leftovers, TreeSettings},
};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use super::{duration::Duration, fleet::Fleet, notify::Notify, store::DatabaseStore};

/// Configuration of harness: `harness.toml` in the state root, or `~/.config/harness/config.toml`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(title = "harness.toml")]
pub(crate) struct Config {
    /// The agent that works the tasks: a built-in or one of `[agents.NAME]`
    pub(crate) agent: Option<String>,
    /// Refuse to complete a task that has no check
    pub(crate) require_validation: bool,
    /// Where the completion promise counts: alone on a line or at the very end (`line`), anywhere in
    /// the final text (`token`), or only inside `<promise>` tags (`tag`)
    pub(crate) promise_match: PromiseMatch,
    /// Iterations without progress after which a run stops; 0 turns it off
    pub(crate) stall_limit: u32,
    /// Seconds without output after which an agent is asked, then ended
    pub(crate) stall_seconds: u64,
    /// Part of its context window that an agent may use before it gets a fresh one
    #[serde(deserialize_with = "fraction")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub(crate) context_threshold: f64,
    /// Globs of files that an attempt should not touch: its tests, gates and CI
    pub(crate) protected: Vec<String>,
    /// What happens to an attempt that touched a protected file
    pub(crate) protect: Protect,
    /// Channels that tell you what happens, as tables `[[notify]]`; or one command that gets each event
    /// (done, stuck, asking, limit, budget) as JSON on stdin
    pub(crate) notify: Option<Notify>,
    pub(crate) limits: Limits,
    pub(crate) validation: Validation,
    pub(crate) git: Git,
    pub(crate) tasks: Tasks,
    pub(crate) keep: Keep,
    pub(crate) parallel: Parallel,
    pub(crate) fleet: Fleet,
    pub(crate) store: DatabaseStore,
    pub(crate) import: Import,
    /// Agents by name; a table with a built-in's name refines it
    pub(crate) agents: BTreeMap<String, Agent>,
    pub(crate) summarizer: Summarizer,
    pub(crate) telemetry: Telemetry,
    pub(crate) otel: Otel,
    pub(crate) secrets: Secrets,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            agent: None,
            require_validation: false,
            promise_match: PromiseMatch::Line,
            stall_limit: 3,
            stall_seconds: 900,
            context_threshold: 0.75,
            protected: Vec::new(),
            protect: Protect::Flag,
            notify: None,
            limits: Limits::default(),
            validation: Validation::default(),
            git: Git::default(),
            tasks: Tasks::default(),
            keep: Keep::default(),
            parallel: Parallel::default(),
            fleet: Fleet::default(),
            store: DatabaseStore::default(),
            import: Import::default(),
            agents: BTreeMap::new(),
            summarizer: Summarizer::default(),
            telemetry: Telemetry::default(),
            otel: Otel::default(),
            secrets: Secrets::default(),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PromiseMatch {
    Line,
    Token,
    Tag,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Protect {
    Flag,
    Refuse,
}

/// Bounds of one run
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Limits {
    /// How many fresh contexts an agent gets after the first one, for an objective or an attempt at a task
    pub(crate) max_iterations: u32,
    /// What a run may cost, in US dollars; all its agents and attempts count
    #[serde(deserialize_with = "optional_amount")]
    #[schemars(range(min = 0.0))]
    pub(crate) max_cost: Option<f64>,
    /// What a run may use, in input and output tokens together
    pub(crate) max_tokens: Option<u64>,
    /// How long a run may take from its start or resume, such as 90s, 30m, 8h or 2d
    pub(crate) max_duration: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_iterations: 10, max_cost: None, max_tokens: None, max_duration: None }
    }
}

/// How checks are run
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Validation {
    /// The check of tasks that are added without one (`harness add` without `--validate`)
    pub(crate) command: Option<String>,
    /// Judge a clean checkout of the commit, not the work tree
    pub(crate) clean: bool,
    /// Also run a check before the first attempt
    pub(crate) baseline: bool,
    /// Paths from the top of the work tree that a clean checkout gets as links, such as node_modules
    pub(crate) link: Vec<PathBuf>,
    /// Paths from the top of the work tree that are copied into a clean checkout, such as .env
    pub(crate) copy: Vec<PathBuf>,
}

impl Validation {
    /// Returns the files that a clean checkout receives besides the commit.
    pub(crate) fn bring(&self) -> Bring {
        Bring { link: self.link.clone(), copy: self.copy.clone() }
    }
}

/// How harness uses git
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Git {
    /// Add `(harness TASK.EPOCH)` to the committer's name in commits that agents and checks make, so
    /// that a rollback can tell them from yours
    pub(crate) mark: bool,
    /// Run the repository's commit hooks, as they were when you trusted this directory. The commit is
    /// then made first, and the check judges it
    pub(crate) hooks: bool,
    /// Sign commits with the key that git is configured to use
    pub(crate) sign: bool,
}

impl Default for Git {
    fn default() -> Self {
        Self { mark: true, hooks: false, sign: false }
    }
}

/// Permissions to change the ledger
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tasks {
    /// Whether agents of a run may add tasks; those are marked with `added_by`
    pub(crate) agents_may_add: bool,
}

impl Default for Tasks {
    fn default() -> Self {
        Self { agents_may_add: true }
    }
}

/// How long things are kept; older ones go at a session's end
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Keep {
    /// Days that a rescued state is kept
    pub(crate) rescue_days: u32,
    /// Days that a transcript is kept
    pub(crate) transcript_days: u32,
    /// Megabytes of transcripts that are kept
    pub(crate) transcript_mb: u32,
}

impl Default for Keep {
    fn default() -> Self {
        Self { rescue_days: 30, transcript_days: 30, transcript_mb: 500 }
    }
}

/// Several workers on one ledger
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Parallel {
    /// The folder of the work trees of workers; none: `.harness/worktrees`
    pub(crate) worktrees: Option<PathBuf>,
    /// Start each task in an empty folder, without the ignored files of the task before
    pub(crate) fresh: bool,
    /// Globs of files that git does not bring and that each work tree gets as copies
    pub(crate) copy: Vec<String>,
    /// Paths that each work tree gets as links, such as node_modules
    pub(crate) link: Vec<String>,
    /// How results land: each commit as it is (`rebase`), one commit per task (`squash`), or on a
    /// branch of their own that becomes a pull request (`pr`)
    pub(crate) land: Land,
    /// The number of results that prepare to land at the same time; 1 is strictly one after the other
    #[serde(deserialize_with = "at_least_one")]
    #[schemars(range(min = 1))]
    pub(crate) line: usize,
    /// The command that opens a pull request, for `land = "pr"`; {branch}, {target}, {title} and
    /// {body} are replaced. None: `gh pr create`, where gh is installed
    pub(crate) pr: Option<String>,
    /// The branch on which results land; none: the branch that is checked out
    pub(crate) target: Option<String>,
}

impl Default for Parallel {
    fn default() -> Self {
        Self {
            worktrees: None,
            fresh: false,
            copy: TreeSettings::default().copy,
            link: Vec::new(),
            land: Land::Rebase,
            line: harness_core::line::PREPARING,
            pr: None,
            target: None,
        }
    }
}

impl Parallel {
    /// Returns the settings of the work trees.
    pub(crate) fn trees(&self) -> TreeSettings {
        TreeSettings {
            folder: self.worktrees.clone(),
            copy: self.copy.clone(),
            link: self.link.clone(),
            leftovers: if self.fresh { Leftovers::Removed } else { Leftovers::Stay },
        }
    }
}

/// The way in which results land.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum,
)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Land {
    Rebase,
    Squash,
    Pr,
}

/// One agent
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Agent {
    /// The protocol of the agent. A table with the name of a built-in agent needs none, and one
    /// that only has a `command` is a `command`
    pub(crate) kind: Option<AgentKind>,
    /// The program and its arguments, split into words as a shell would, but run without one
    pub(crate) command: Option<String>,
    /// Further arguments, each as it is
    pub(crate) args: Vec<String>,
    /// The model to ask for
    pub(crate) model: Option<String>,
    /// Variables that it gets beyond the usual ones: `NAME`, `PREFIX_*` or `NAME=value`
    pub(crate) env: Vec<String>,
    /// The price of tokens, for agents that report no cost
    pub(crate) price: Option<Price>,
    /// Agents that take over, in this order, while this one is at its usage limit
    pub(crate) fallback: Vec<String>,
    /// Let it do anything without asking (bypass its permissions and sandbox)
    pub(crate) yolo: bool,
    /// Tokens of its context window, for agents that do not report them
    pub(crate) context_window: Option<u64>,
    /// This agent's own `stall_seconds`
    pub(crate) stall_seconds: Option<u64>,
    /// Give it the tools of `harness mcp`; claude, codex and acp take them
    pub(crate) mcp: bool,
}

impl Default for Agent {
    fn default() -> Self {
        Self {
            kind: None,
            command: None,
            args: Vec::new(),
            model: None,
            env: Vec::new(),
            price: None,
            fallback: Vec::new(),
            yolo: false,
            context_window: None,
            stall_seconds: None,
            mcp: true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AgentKind {
    Claude,
    Codex,
    Acp,
    Command,
    Shell,
}

/// US dollars per million tokens
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Price {
    /// The price of a million input tokens
    #[serde(deserialize_with = "amount")]
    #[schemars(range(min = 0.0))]
    pub(crate) input: f64,
    /// The price of a million output tokens
    #[serde(deserialize_with = "amount")]
    #[schemars(range(min = 0.0))]
    pub(crate) output: f64,
}

/// The agent that writes summaries
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Summarizer {
    /// The agent that is asked; none: summaries are made without a model
    pub(crate) agent: Option<String>,
}

/// What happens to the sources of imported tasks
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Import {
    /// At the end of a run, call the completed tasks done where `harness import` took them from
    pub(crate) sync: bool,
}

/// Events for a program that listens on this machine
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Telemetry {
    /// The port; its variable is HARNESS_ACP_PORT
    pub(crate) port: u16,
    /// Send the events of a daemon
    pub(crate) daemon: bool,
    /// Send the events of `harness run` too
    pub(crate) run: bool,
}

impl Default for Telemetry {
    fn default() -> Self {
        Self { port: 9100, daemon: true, run: false }
    }
}

/// Traces and metrics of runs
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Otel {
    /// The address of an OpenTelemetry collector that takes OTLP over HTTP, such as
    /// http://localhost:4318; OTEL_EXPORTER_OTLP_ENDPOINT takes precedence. None: nothing is sent
    pub(crate) endpoint: Option<String>,
}

/// Variables whose values are stored, logged, sent and shown nowhere
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Secrets {
    /// Names of such variables, beside those that end with _KEY, _TOKEN, _SECRET, _PASSWORD, _PASS or
    /// _PAT; `*` stands for anything
    pub(crate) names: Vec<String>,
    /// Names of variables that are not secret although they look so
    pub(crate) except: Vec<String>,
}

impl Config {
    /// Agents that need no table.
    pub(crate) const BUILT_IN_AGENTS: [&str; 8] =
        ["claude", "codex", "gemini", "opencode", "qwen", "copilot", "command", "shell"];

    /// Returns the kind of an agent, by its table or by its name.
    pub(crate) fn kind(&self, name: &str) -> Option<AgentKind> {
        let table = self.agents.get(name);
        if let Some(kind) = table.and_then(|table| table.kind) {
            return Some(kind);
        }
        match name {
            "shell" => Some(AgentKind::Shell),
            "claude" => Some(AgentKind::Claude),
            "codex" => Some(AgentKind::Codex),
            "command" => Some(AgentKind::Command),
            _ if KnownAcpAgent::named(name).is_some() => Some(AgentKind::Acp),
            _ => table?.command.is_some().then_some(AgentKind::Command),
        }
    }

    /// Returns the program that it runs; `None` for scripts, or if none is named.
    pub(crate) fn program(&self, name: &str) -> Option<&str> {
        let command = self.agents.get(name).and_then(|table| table.command.as_deref());
        let command = command.or_else(|| match self.kind(name)? {
            AgentKind::Claude => Some("claude"),
            AgentKind::Codex => Some("codex"),
            AgentKind::Acp => KnownAcpAgent::named(name).map(|known| known.command),
            AgentKind::Command | AgentKind::Shell => None,
        });
        command?.split_whitespace().next()
    }

    /// Returns a contradiction between several values: the key and the problem.
    pub(super) fn contradiction(&self) -> Option<(String, String)> {
        let known =
            |name: &str| Self::BUILT_IN_AGENTS.contains(&name) || self.agents.contains_key(name);
        let stranger = |key: String, name: &str| {
            (!known(name)).then(|| (key, format!("unknown agent {name:?}")))
        };
        let named = [("agent", &self.agent), ("summarizer.agent", &self.summarizer.agent)];
        for (key, name) in named {
            if let Some(found) = name.as_deref().and_then(|name| stranger(key.to_owned(), name)) {
                return Some(found);
            }
        }
        self.agents.iter().find_map(|(name, agent)| {
            let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
            if name.is_empty() || !name.chars().all(plain) {
                let problem = "an agent's name is made of letters, digits, `-` and `_`";
                return Some((format!("agents.{name}"), problem.to_owned()));
            }
            let kindless = agent.kind.is_none() && agent.command.is_none();
            if kindless && !Self::BUILT_IN_AGENTS.contains(&name.as_str()) {
                let problem = "it is not a built-in agent, so it needs a `kind` or a `command`";
                return Some((format!("agents.{name}"), problem.to_owned()));
            }
            let key = || format!("agents.{name}.fallback");
            agent.fallback.iter().find_map(|other| stranger(key(), other))
        })
    }
}

fn fraction<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(d)?;
    let inside = value > 0.0 && value <= 1.0;
    if inside { Ok(value) } else { Err(out_of_range(value, "a number above 0, up to 1")) }
}

fn at_least_one<'de, D: Deserializer<'de>>(d: D) -> Result<usize, D::Error> {
    let count = usize::deserialize(d)?;
    let wrong = || {
        let found = de::Unexpected::Unsigned(count as u64);
        de::Error::invalid_value(found, &"a number above 0")
    };
    if count > 0 { Ok(count) } else { Err(wrong()) }
}

fn amount<'de, D: Deserializer<'de>>(d: D) -> Result<f64, D::Error> {
    let value = f64::deserialize(d)?;
    let good = value.is_finite() && value >= 0.0;
    if good { Ok(value) } else { Err(out_of_range(value, "a number that is not negative")) }
}

fn optional_amount<'de, D: Deserializer<'de>>(d: D) -> Result<Option<f64>, D::Error> {
    amount(d).map(Some)
}

fn out_of_range<E: de::Error>(value: f64, expected: &str) -> E {
    E::invalid_value(de::Unexpected::Float(value), &expected)
}
