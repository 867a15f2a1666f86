//! The arguments of `harness run`.

use harness_core::TaskId;

use super::row;
use crate::{config::Land, store::task_id};

/// Work on the ledger, or on one objective, until it is done
///
/// Without an objective, it takes one task after another. The agent works, then the task's check
/// decides. Work that passed is committed as `ID: title`. Work that did not is rolled back and
/// tried again; everything that the rollback would remove is saved first (`harness rescue list`).
/// The next session recovers one that was killed. While it works, you can add and change tasks in
/// other terminals. The work tree must be clean, because uncommitted changes could not be told from
/// the agent's work.
///
/// With an objective, the agent gets one fresh context after another until it prints the promise
/// and the command of --verify passes. Nothing is committed and nothing is rolled back. This needs
/// no `harness init`: in a git repository the files of harness are created.
///
/// `--resume` continues a stopped run: after a crash, a reboot or a spent budget.
///
/// The lines of the log, questions and the summary at the end go to standard error. Standard output
/// gets the document of --json; without it, if it is a file (`harness run > night.log`), the same
/// lines.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = "\
Examples:
  harness run --agent claude --max-cost 5.00   # Claude Code on the tasks of the ledger
  harness run --agent shell                    # instructions are scripts: no model, no key
  harness run --agent-command 'my-agent --print'   # the prompt comes on standard input
  harness run --agent-command 'aider --yes' --agent-env OPENAI_API_KEY
  harness run 'Write the release notes' --verify 'test -s NOTES.md' --max-cost 5.00
  harness run --task task-003 --agent claude   # this task only
  harness run --agent claude --workers 4       # four tasks at the same time
  harness run --resume --max-iterations 20
  harness run --agent shell --dry-run
  harness run --agent shell --detach && harness status --watch")]
pub(crate) struct Args {
    /// The objective; without one, the tasks of the ledger
    pub(in crate::commands) objective: Option<String>,
    /// Work on these tasks only; those that wait for others are named at the end. Name them again
    /// with --resume
    #[arg(long, value_name = "ID", num_args = 1.., value_parser = task_id)]
    #[arg(conflicts_with = "objective")]
    pub(in crate::commands) task: Vec<TaskId>,
    /// The agent: `claude`, `codex`, `gemini`, `opencode`, `qwen`, `copilot`, `shell`, or one of
    /// `[agents.NAME]` in harness.toml [default: claude or codex, whichever is installed]
    #[arg(long, value_name = "NAME")]
    pub(in crate::commands) agent: Option<String>,
    /// Any program that reads a prompt on standard input, or from the file that replaces
    /// {prompt_file}
    #[arg(long, value_name = "COMMAND", conflicts_with = "agent")]
    pub(in crate::commands) agent_command: Option<String>,
    /// A variable that the program of --agent-command gets beside PATH, HOME, GIT_*, HARNESS_* and
    /// the like: NAME, a beginning (OPENAI_*), or NAME=value (repeatable, or with commas)
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "agent_command")]
    #[arg(conflicts_with = "agent")]
    pub(in crate::commands) agent_env: Vec<String>,
    /// Work on N tasks at the same time, each in a work tree of its own; results land one after the
    /// other on the branch that is checked out, or on --target. With 1, back to one worker here
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=500))]
    #[arg(conflicts_with_all = ["objective", "allow_dirty"])]
    pub(in crate::commands) workers: Option<u16>,
    /// One worker in a work tree of its own, which lands: your files are out of its reach
    #[arg(long, conflicts_with_all = ["objective", "allow_dirty"])]
    pub(in crate::commands) worktree: bool,
    /// The branch on which the results of several workers land; it is created if it is missing
    /// [default: `[parallel] target`, else the branch that is checked out]
    #[arg(long, value_name = "BRANCH", conflicts_with = "objective")]
    pub(in crate::commands) target: Option<String>,
    /// How results land: each commit as it is (rebase), one commit per task (squash), or on a branch
    /// that becomes a pull request (pr) [default: `[parallel] land`, else rebase]
    #[arg(long, value_name = "HOW", conflicts_with = "objective", hide_possible_values = true)]
    pub(in crate::commands) land: Option<Land>,
    /// A label of the workers, for tasks that require it (repeatable, or with commas)
    #[arg(long, value_name = "LABEL", value_delimiter = ',')]
    #[arg(value_parser = crate::commands::task::claim::label)]
    pub(in crate::commands) label: Vec<String>,
    /// Stop after this session, even if work is left
    #[arg(long)]
    pub(in crate::commands) once: bool,
    /// Set your uncommitted changes aside, and restore them at the end
    #[arg(long)]
    pub(in crate::commands) allow_dirty: bool,
    /// Print the order of work and exit
    #[arg(long)]
    pub(in crate::commands) dry_run: bool,
    /// Run in the background; output goes to .harness/run.log
    #[arg(long, conflicts_with_all = ["json", "dry_run"])]
    pub(in crate::commands) detach: bool,
    /// Run in the background and watch it in `harness top`; leaving that does not stop the run
    #[arg(long, conflicts_with_all = ["json", "dry_run", "detach"])]
    pub(in crate::commands) top: bool,
    #[arg(long, hide = true)]
    pub(in crate::commands) detached: bool,
    /// Maximum number of tasks per session [default: from the ledger]
    #[arg(long, value_name = "N")]
    pub(in crate::commands) max_tasks_per_session: Option<u32>,
    /// Maximum number of sessions of this ledger [default: from the ledger]
    #[arg(long, value_name = "N")]
    pub(in crate::commands) max_sessions: Option<u32>,
    /// Maximum number of fresh contexts after the first one [default: 10]
    #[arg(long, value_name = "N", value_parser = row::iterations)]
    pub(in crate::commands) max_iterations: Option<u32>,
    /// The text by which the agent reports that it is done [default: TASK_COMPLETE]
    #[arg(long, value_name = "TEXT", value_parser = row::promise)]
    pub(in crate::commands) completion_promise: Option<String>,
    /// A command that must pass before the promise counts
    #[arg(long, value_name = "COMMAND")]
    pub(in crate::commands) verify: Option<String>,
    /// Maximum cost in US dollars
    #[arg(long, value_name = "USD", value_parser = row::amount)]
    pub(in crate::commands) max_cost: Option<f64>,
    /// Maximum number of input and output tokens, cached ones included
    #[arg(long, value_name = "N", value_parser = row::tokens)]
    pub(in crate::commands) max_tokens: Option<u64>,
    /// Time limit from now on, waits included: 90s, 30m, 8h
    #[arg(long, value_name = "TIME", value_parser = row::seconds)]
    pub(in crate::commands) max_duration: Option<u64>,
    /// Show what the agent says and which tools it uses, line by line
    #[arg(short, long)]
    pub(in crate::commands) verbose: bool,
    /// Show the run in a browser too; `harness web --url` prints another link
    #[arg(long, conflicts_with = "dry_run")]
    pub(in crate::commands) web: bool,
    /// Stop at a usage limit instead of waiting until it lifts
    #[arg(long)]
    pub(in crate::commands) no_wait: bool,
    /// Continue the newest unfinished run; options replace its stored ones
    #[arg(long, conflicts_with_all = ["objective", "dry_run"])]
    pub(in crate::commands) resume: bool,
    /// The run to resume; the beginning of its id is enough
    #[arg(long, value_name = "RUN_ID", requires = "resume", conflicts_with = "objective")]
    pub(in crate::commands) run_id: Option<String>,
    #[command(flatten)]
    pub(in crate::commands) worker: crate::worker::Choice,
    /// Print a JSON document on standard output at the end
    #[arg(long)]
    pub(in crate::commands) json: bool,
    /// Print every event on standard output as a line of JSON, and the document of --json last
    #[arg(long, conflicts_with_all = ["detach", "top", "dry_run"])]
    pub(in crate::commands) events: bool,
}
