//! The command line. Each command's own arguments are in its file below `commands/`, and their doc
//! comments are the help text.

use std::{ffi::OsString, path::PathBuf};

use clap::{Args as _, CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{commands, exit::ExitCode, render::ColorWhen};

#[derive(Debug, Parser)]
#[command(name = NAME)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const NAME: &str = "harness";

/// The options of every command.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Run as if started in this directory
    #[arg(short = 'C', long, global = true, value_name = "DIR")]
    pub(crate) directory: Option<PathBuf>,
    /// When to use colours: auto, always, never
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    #[arg(hide_possible_values = true)]
    pub(crate) color: ColorWhen,
    /// No colours and no live view: lines of text only
    #[arg(long, global = true)]
    pub(crate) plain: bool,
}

impl Global {
    pub(crate) fn color_when(&self) -> ColorWhen {
        if self.plain { ColorWhen::Never } else { self.color }
    }
}

macro_rules! commands {
    ($($name:literal => $variant:ident($module:ident),)*) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $(#[command(name = $name)] $variant(commands::$module::Args),)*
        }

        /// Each command by itself, built when it is needed.
        const COMMANDS: &[(&str, fn(clap::Command) -> clap::Command)] =
            &[$(($name, <commands::$module::Args as clap::Args>::augment_args),)*];
    };
}

commands! {
    "init" => Init(init),
    "add" => Add(add),
    "run" => Run(run),
    "work" => Work(work),
    "runs" => Runs(runs),
    "ask" => Ask(ask),
    "questions" => Questions(questions),
    "reply" => Reply(reply),
    "send" => Send(send),
    "abort" => Abort(abort),
    "kick" => Kick(kick),
    "pause" => Pause(pause),
    "resume" => Resume(resume),
    "budget" => Budget(budget),
    "daemon" => Daemon(daemon),
    "ping" => Ping(ping),
    "shutdown" => Shutdown(shutdown),
    "get-state" => GetState(get_state),
    "report" => Report(report),
    "verify" => Verify(verify),
    "why" => Why(why),
    "rescue" => Rescue(rescue),
    "research" => Research(research),
    "demo" => Demo(demo),
    "config" => Config(config),
    "doctor" => Doctor(doctor),
    "log" => Log(log),
    "plan" => Plan(plan),
    "import" => Import(import),
    "export" => Export(export),
    "session" => Session(session),
    "status" => Status(status),
    "store" => Store(store),
    "task" => Task(task),
    "top" => Top(top),
    "trust" => Trust(trust),
    "gc" => Gc(gc),
    "revert" => Revert(revert),
    "worker-id" => WorkerId(worker_id),
    "workers" => Workers(workers),
    "completions" => Completions(completions),
    "hook" => Hook(hook),
    "install" => Install(install),
    "uninstall" => Uninstall(uninstall),
    "purge" => Purge(purge),
    "man" => Man(man),
    "mcp" => Mcp(mcp),
    "notify" => Notify(notify),
    "trace" => Trace(trace),
    "acp" => Acp(acp),
    "web" => Web(web),
}

/// The order in which `harness --help` lists the commands. A test checks that each is in one group.
const GROUPS: &[(&str, &[&str])] = &[
    (
        "Set up",
        &["demo", "init", "store", "install", "uninstall", "trust", "config", "doctor", "purge"],
    ),
    (
        "Tasks",
        &[
            "add", "run", "work", "task", "plan", "import", "export", "session", "research",
            "rescue", "revert", "gc",
        ],
    ),
    (
        "Looking",
        &["top", "status", "web", "log", "report", "runs", "workers", "why", "verify", "trace"],
    ),
    (
        "Talking with a run",
        &[
            "questions",
            "reply",
            "send",
            "kick",
            "pause",
            "resume",
            "budget",
            "abort",
            "ask",
            "notify",
        ],
    ),
    ("The daemon", &["daemon", "ping", "get-state", "shutdown"]),
    ("For scripts", &["mcp", "acp", "hook", "worker-id", "completions", "man"]),
];

/// Returns the whole command line as data, for help, completions and the manual.
pub(crate) fn command() -> clap::Command {
    let command = entire(Cli::command());
    let template = help_template(&command);
    command.help_template(template)
}

/// Returns the command line as far as `word` needs it. Building the arguments of every command
/// takes longer than most commands run.
fn narrow(word: &str) -> Option<clap::Command> {
    let (name, build) = COMMANDS.iter().find(|(name, _)| *name == word)?;
    let command = Global::augment_args(entire(clap::Command::new(NAME)));
    Some(command.subcommand_required(true).subcommand(build(clap::Command::new(*name))))
}

/// Adds the texts that apply to the whole command line.
fn entire(command: clap::Command) -> clap::Command {
    command
        .about("Keeps coding agents working until the work is verifiably done")
        .version(env!("CARGO_PKG_VERSION"))
        .arg_required_else_help(true)
        .disable_help_subcommand(true)
        .max_term_width(100)
        .after_help(ExitCode::HELP)
}

/// Parses the command line. Help and version are errors too, as in clap.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let words = spelled_out(std::env::args_os());
    let typed = || words.iter().skip(1).cloned();
    let line = match first_word(typed()) {
        Some(word) => word.to_str().and_then(narrow),
        // No command is needed for the version.
        None if is_version(typed()) => Some(entire(clap::Command::new(NAME))),
        None => None,
    };
    let matches = line.unwrap_or_else(command).try_get_matches_from(words)?;
    Cli::from_arg_matches(&matches)
}

/// Returns whether a hook was called, for lines that cannot be parsed.
pub(crate) fn is_hook() -> bool {
    first_word(std::env::args_os().skip(1)).is_some_and(|word| word == "hook")
}

/// Rewrites `help COMMAND` to `COMMAND --help`, and `version` to `--version`.
fn spelled_out(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    match words.get(1).and_then(|word| word.to_str()) {
        Some("help") => {
            words.remove(1);
            words.push("--help".into());
        }
        Some("version") if words.len() == 2 => words[1] = "--version".into(),
        _ => {}
    }
    words
}

fn is_version(mut words: impl Iterator<Item = OsString>) -> bool {
    let first = words.next().is_some_and(|word| word == "--version" || word == "-V");
    first && words.next().is_none()
}

/// Returns the first word that is neither an option nor the value of one.
fn first_word(mut words: impl Iterator<Item = OsString>) -> Option<OsString> {
    while let Some(word) = words.next() {
        if word == "-C" || word == "--directory" || word == "--color" {
            words.next();
        } else if !word.to_string_lossy().starts_with('-') {
            return Some(word);
        }
    }
    None
}

/// Returns a template with groups. Clap would list several dozen subcommands in one block.
fn help_template(command: &clap::Command) -> String {
    let width = command.get_subcommands().map(|c| c.get_name().len()).max().unwrap_or(0);
    let heading = command.get_styles().get_header();
    let name_style = command.get_styles().get_literal();
    let mut template = String::from("{about}\n\n{usage-heading} {usage}\n");
    for (title, names) in GROUPS {
        template += &format!("\n{heading}{title}:{heading:#}\n");
        for name in *names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            template += &format!("  {name_style}{name:<width$}{name_style:#}  {about}\n");
        }
    }
    // `{after-help}` includes its own blank line.
    template += &format!("\n{heading}Options:{heading:#}\n{{options}}\n");
    template + "\n`harness help COMMAND` has details and examples.{after-help}"
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        command().debug_assert();
    }

    #[test]
    fn a_command_built_alone_is_the_same() {
        let mut all = command();
        all.build();
        for (name, _) in COMMANDS {
            let mut alone = narrow(name).unwrap();
            alone.build();
            let help = |line: &mut clap::Command| {
                let command = line.find_subcommand_mut(name).unwrap();
                (command.render_long_help().to_string(), command.render_usage().to_string())
            };
            assert_eq!(help(&mut alone), help(&mut all), "{name}");
        }
        assert_eq!(COMMANDS.len(), all.get_subcommands().count());
    }

    #[test]
    fn the_first_word_is_the_command() {
        for (line, word) in [
            ("status --json", Some("status")),
            ("-C status run x", Some("run")),
            ("--color never --plain task list", Some("task")),
            ("--color=never hook", Some("hook")),
            ("--help", None),
        ] {
            let words = line.split(' ').map(OsString::from);
            assert_eq!(first_word(words), word.map(OsString::from), "{line}");
        }
    }

    #[test]
    fn help_and_version_are_commands_too() {
        for (line, meant) in [
            ("harness help", "harness --help"),
            ("harness help run", "harness run --help"),
            ("harness help task claim", "harness task claim --help"),
            ("harness version", "harness --version"),
            ("harness add help", "harness add help"),
        ] {
            let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
            assert_eq!(spelled_out(words(line).into_iter()), words(meant), "{line}");
        }
    }

    #[test]
    fn every_visible_command_is_in_one_group() {
        let mut grouped: Vec<_> = GROUPS.iter().flat_map(|(_, names)| *names).copied().collect();
        grouped.sort_unstable();
        let command = Cli::command();
        let visible = command.get_subcommands().filter(|c| !c.is_hide_set());
        let mut names: Vec<_> = visible.map(clap::Command::get_name).collect();
        names.sort_unstable();
        assert_eq!(grouped, names);
    }

    #[test]
    fn every_visible_command_shows_an_example() {
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.starts_with("Examples:\n  harness "), "{}", command.get_name());
        }
    }
}
