//! What can be typed. Each command's own arguments live in its file below `commands/`, and their
//! doc comments are the help text.

use std::path::PathBuf;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::{commands, exit::ExitCode, render::ColorWhen};

/// Keeps coding agents working until the work is verifiably done
#[derive(Debug, Parser)]
#[command(
    name = "harness",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    max_term_width = 100,
    after_help = ExitCode::HELP
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(commands::init::Args),
    Add(commands::add::Args),
    Run(commands::run::Args),
    Runs(commands::runs::Args),
    Ask(commands::ask::Args),
    Questions(commands::questions::Args),
    Reply(commands::reply::Args),
    Send(commands::send::Args),
    Abort(commands::abort::Args),
    Kick(commands::kick::Args),
    Daemon(commands::daemon::Args),
    Ping(commands::ping::Args),
    Shutdown(commands::shutdown::Args),
    GetState(commands::get_state::Args),
    Report(commands::report::Args),
    Verify(commands::verify::Args),
    Why(commands::why::Args),
    Rescue(commands::rescue::Args),
    Research(commands::research::Args),
    Demo(commands::demo::Args),
    Config(commands::config::Args),
    Doctor(commands::doctor::Args),
    Log(commands::log::Args),
    Plan(commands::plan::Args),
    Status(commands::status::Args),
    Task(commands::task::Args),
    Trust(commands::trust::Args),
    WorkerId(commands::worker_id::Args),
    Completions(commands::completions::Args),
    Hook(commands::hook::Args),
    Man(commands::man::Args),
    Mcp(commands::mcp::Args),
}

/// The order in which `harness --help` lists the commands. A test holds that each is in one group.
const GROUPS: &[(&str, &[&str])] = &[
    ("Set up", &["demo", "init", "trust", "config", "doctor"]),
    ("Tasks", &["add", "run", "task", "plan", "research", "rescue"]),
    ("Looking", &["status", "log", "report", "runs", "why", "verify"]),
    ("Talking with a run", &["questions", "reply", "send", "kick", "abort", "ask"]),
    ("The daemon", &["daemon", "ping", "get-state", "shutdown"]),
    ("For scripts", &["mcp", "hook", "worker-id", "completions", "man"]),
];

/// The whole command line as data, for parsing, completions and the manual.
pub(crate) fn command() -> clap::Command {
    let command = Cli::command();
    let template = help_template(&command);
    command.help_template(template)
}

/// What was typed. Help and version are errors too, as clap has it.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let matches = command().try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

/// Whether a hook was called, for when the rest of the line makes no sense.
pub(crate) fn is_hook() -> bool {
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        if word == "-C" || word == "--directory" || word == "--color" {
            words.next();
        } else if !word.to_string_lossy().starts_with('-') {
            return word == "hook";
        }
    }
    false
}

/// Clap lists the subcommands in one heap; several dozen need groups.
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
    // `{after-help}` brings its own blank line.
    template += &format!("\n{heading}Options:{heading:#}\n{{options}}\n");
    template + "\n`harness COMMAND --help` has details and examples.{after-help}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        command().debug_assert();
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
