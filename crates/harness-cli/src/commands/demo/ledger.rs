//! The ledger alone: two workers, and a kill -9 in the middle of a write.

use harness_core::task::Status;

use super::{crash, stage::Stage, workers};
use crate::failure::Result;

/// Returns the problem at the end; `None` if everything went as expected.
pub(super) fn play(stage: &mut Stage<'_>) -> Result<Option<String>> {
    stage.title("A repository, a ledger, a plan of six tasks")?;
    stage.harness(&["init", "--yes"])?.shown()?;
    stage.write("plan.md", PLAN)?;
    stage.harness(&["plan", "import", "--file", "plan.md"])?.shown()?;
    stage.harness(&["task", "graph"])?.shown()?;

    stage.title(
        "Two workers share it: no task is handed out twice, and none counts before its check has passed",
    )?;
    workers::work(stage, &["ann", "bob"], 4)?;

    stage.title(
        "kill -9 in the middle of a write: the new ledger is on disk, but not yet renamed",
    )?;
    stage.claim_for("cat")?;
    stage.crash(crash::Step::Rename)?;
    stage.say("The process is gone. It left a temporary file and its lock:")?;
    let lock = stage.lock();
    stage.shell(&format!("ls -d harness-tasks.json* {lock}"))?;
    stage.say(
        "The ledger is intact, the task still claimed. The next command removes the dead lock:",
    )?;
    stage.harness(&["task", "renew", "--id", "publish", "--worker", "cat"])?.shown()?;

    stage.title("kill -9 one step later: the ledger says completed, the log does not yet")?;
    stage.crash(crash::Step::Log)?;
    stage.shell("grep -c 'Completed .publish.' harness-progress.txt || true")?;
    stage.say("The ledger remembers the line. The next write adds it to the log, exactly once:")?;
    stage.harness(&["task", "claim", "--worker", "ann"])?.quiet()?;
    stage.shell("grep 'Completed .publish.' harness-progress.txt")?;
    workers::work(stage, &["ann"], 1)?;

    stage.title("The result in the morning")?;
    stage.harness(&["status"])?.shown()?;
    stage.shell("git log --oneline")?;
    stage.wrong(|_| Status::Completed)
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
