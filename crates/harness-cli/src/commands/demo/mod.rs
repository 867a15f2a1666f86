//! `harness demo`: the real program, in a repository of its own, with things going wrong.

mod crash;
mod stage;
mod workers;

use std::path::PathBuf;

use super::Invocation;
use crate::{
    exit::ExitCode,
    failure::{Failure, Result},
};
use stage::{Pace, Stage};

/// Watch it work: two workers, one ledger, and a kill -9 in the middle of a write
///
/// Everything happens in a temporary repository; every line that starts with `$` is a command that
/// was really run. No agent, no key, no network.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  harness demo
  harness demo --keep      # leave the repository there to look around")]
pub(crate) struct Args {
    /// Keep the temporary repository
    #[arg(long)]
    keep: bool,
    /// Do not pause for the reader
    #[arg(long)]
    fast: bool,
    /// Act as the process that dies: for the demo itself
    #[arg(long, hide = true, value_name = "STEP")]
    die_at: Option<crash::Step>,
    #[arg(long, hide = true, requires = "die_at")]
    root: Option<PathBuf>,
}

pub(crate) fn run(invocation: &mut Invocation, args: Args) -> Result<ExitCode> {
    if let (Some(step), Some(root)) = (args.die_at, &args.root) {
        return crash::complete_and_die(root, step);
    }
    let pace = if args.fast { Pace::Fast } else { Pace::of_this_terminal() };
    let mut stage = Stage::build(&mut invocation.out, pace)?;
    stage.title("A repository, a ledger, a plan of six tasks")?;
    stage.harness(&["init", "--yes"])?.shown()?;
    stage.write("plan.md", PLAN)?;
    stage.harness(&["plan", "import", "--file", "plan.md"])?.shown()?;
    stage.harness(&["task", "graph"])?.shown()?;

    stage.title(
        "Two workers share it: nobody gets the same task, nothing counts before its check passed",
    )?;
    workers::work(&mut stage, &["ann", "bob"], 4)?;

    stage.title(
        "kill -9 in the middle of a write: the new ledger is on disk, its rename is not done",
    )?;
    stage.claim_for("cat")?;
    stage.crash(crash::Step::Rename)?;
    stage.say("The process is gone. It left its half-done file and its lock:")?;
    let lock = stage.lock();
    stage.shell(&format!("ls -d harness-tasks.json* {lock}"))?;
    stage
        .say("The ledger is whole, the task still claimed. The next command ends the dead lock:")?;
    stage.harness(&["task", "renew", "--id", "publish", "--worker", "cat"])?.shown()?;

    stage.title("kill -9 one step later: the ledger says completed, the log does not yet")?;
    stage.crash(crash::Step::Log)?;
    stage.shell("grep -c 'Completed .publish.' harness-progress.txt || true")?;
    stage.say("The ledger remembers the line. Whoever writes next puts it there, exactly once:")?;
    stage.harness(&["task", "claim", "--worker", "ann"])?.quiet()?;
    stage.shell("grep 'Completed .publish.' harness-progress.txt")?;
    workers::work(&mut stage, &["ann"], 1)?;

    stage.title("What is there in the morning")?;
    stage.harness(&["status"])?.shown()?;
    stage.shell("git log --oneline")?;
    let verdict = stage.verdict()?;
    let place = stage.end(args.keep)?;
    if let Some(place) = place {
        let place = place.display();
        invocation.out.line(format_args!("\nLook around: cd {place} && harness log"))?;
    }
    match verdict {
        None => Ok(ExitCode::Done),
        Some(wrong) => Err(Failure::error(format!("the demo did not end as it should: {wrong}"))),
    }
}

const PLAN: &str = r#"Here is the plan. Everything around the block is ignored.

```json
{
  "goal": "Publish a small greeting program",
  "tasks": {
    "greet":   {"description": "Write the greeting",
                "instructions": "printf 'echo hello\\n' > greet.sh",
                "validation": {"command": "sh greet.sh | grep -qx hello"}},
    "license": {"description": "Choose a licence", "priority": "P2",
                "instructions": "echo MIT > LICENSE",
                "validation": {"command": "grep -q MIT LICENSE"}},
    "name":    {"description": "Greet by name", "dependencies": ["greet"],
                "instructions": "printf 'echo hello ${1:-world}\\n' > greet.sh",
                "validation": {"command": "test \"$(sh greet.sh Ada)\" = 'hello Ada'"}},
    "docs":    {"description": "Describe it", "dependencies": ["name"],
                "instructions": "echo 'sh greet.sh NAME greets NAME.' > README",
                "validation": {"command": "grep -q greet.sh README"}},
    "publish": {"description": "Make the archive", "dependencies": ["docs", "license"],
                "instructions": "tar cf greet.tar greet.sh README LICENSE",
                "validation": {"command": "tar tf greet.tar | grep -q greet.sh"}},
    "announce":{"description": "Tell the world", "dependencies": ["publish"],
                "instructions": "sh greet.sh world > news.txt",
                "validation": {"command": "grep -q 'hello world' news.txt"}}
  }
}
```
"#;
