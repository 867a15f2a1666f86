//! A night's work in a minute: a failure, a rollback, a kill -9, a recovery, and two workers whose
//! results conflict.

use harness_core::task::Status;

use super::stage::Stage;
use crate::failure::Result;

/// Returns the problem at the end; `None` if everything went as expected.
pub(super) fn play(stage: &mut Stage<'_>) -> Result<Option<String>> {
    stage.title("A repository and a plan of seven tasks. Each has a check that proves it")?;
    stage.harness(&["init", "--yes"])?.shown()?;
    stage.write("notes.txt", "a file of yours that no commit holds\n")?;
    stage.write_outside("plan.md", PLAN)?;
    stage.harness(&["plan", "import", "--file", "../plan.md"])?.shown()?;
    stage.harness(&["task", "graph"])?.shown()?;

    stage.title(
        "harness works on it. The first attempt at `name` is wrong: rolled back, and tried again",
    )?;
    stage.run_and_kill_at("Starting [docs]")?;
    stage.say("That was kill -9, while the agent was in the middle of `docs`.")?;
    stage.nothing_survived()?;
    stage.harness(&["task", "list", "--status", "in_progress"])?.shown()?;
    stage.shell("git status --short")?;

    stage
        .title("Run again: the interrupted task is recovered and checked, and the work goes on")?;
    let code = stage.run_to_the_end(&[])?;
    stage.say(&format!("exit code {code}: finished, but some tasks failed for good"))?;

    stage.title(
        "Two workers, each in a work tree of its own. Both add a line at the same place: one result \
         lands, the other conflicts with it and is made again on top",
    )?;
    stage.write_outside("more.md", MORE)?;
    stage.harness(&["plan", "import", "--file", "../more.md", "--merge"])?.shown()?;
    let code = code.max(stage.run_to_the_end(&["--workers", "2"])?);
    stage.shell("cat NEWS")?;

    stage.title("In the morning")?;
    stage.harness(&["status"])?.shown()?;
    stage.shell("git log --oneline")?;
    stage.say("Nothing that was rolled back is lost, and your own file is unchanged:")?;
    stage.harness(&["rescue", "list"])?.shown()?;
    stage.shell("cat notes.txt")?;
    let hopeless = |id: &str| matches!(id, "translate" | "announce");
    let wrong = stage.wrong(|id| if hopeless(id) { Status::Failed } else { Status::Completed })?;
    Ok(wrong.or_else(|| (code != 4).then(|| format!("exit code {code}"))))
}

const PLAN: &str = r#"Here is the plan. Everything around the block is ignored.

```json
{
  "goal": "Publish a small greeting program",
  "tasks": {
    "greet":    {"description": "Write the greeting",
                 "instructions": "printf 'echo hello\\n' > greet.sh",
                 "validation": {"command": "sh greet.sh | grep -qx hello"}},
    "name":     {"description": "Greet by name", "dependencies": ["greet"],
                 "instructions": "if [ $HARNESS_ATTEMPT = 1 ]; then who=Bob; else who='${1:-world}'; fi\nprintf 'echo hello %s\\n' \"$who\" > greet.sh",
                 "validation": {"command": "test \"$(sh greet.sh Ada)\" = 'hello Ada'"}},
    "license":  {"description": "Choose a licence", "dependencies": ["name"],
                 "instructions": "echo MIT > LICENSE",
                 "validation": {"command": "grep -q MIT LICENSE"}},
    "docs":     {"description": "Describe it", "dependencies": ["license"],
                 "instructions": "echo 'sh greet.sh NAME greets NAME.' > README\nexec sleep 600",
                 "validation": {"command": "grep -q greet.sh README"}},
    "publish":  {"description": "Make the archive", "dependencies": ["docs"],
                 "instructions": "tar cf greet.tar greet.sh README LICENSE",
                 "validation": {"command": "tar tf greet.tar | grep -q greet.sh"}},
    "translate":{"description": "Greet in Klingon", "priority": "P2", "max_attempts": 2,
                 "instructions": "echo 'echo qapla' > klingon.sh",
                 "validation": {"command": "sh klingon.sh | grep -q nuqneH"}},
    "announce": {"description": "Tell the Klingons", "dependencies": ["translate"],
                 "instructions": "sh klingon.sh > news.txt",
                 "validation": {"command": "test -s news.txt"}}
  }
}
```
"#;

/// Each task waits until the other has begun, so that both start from the same commit.
const MORE: &str = r#"```json
{
  "goal": "Publish a small greeting program",
  "tasks": {
    "news-en": {"description": "Announce it in English",
                "instructions": "here=$HARNESS_STATE_ROOT/..; touch $here/en\nwhile [ $HARNESS_ATTEMPT = 1 ] && ! [ -e $here/fr ]; do sleep 0.02; done\necho 'It says hello.' >> NEWS",
                "validation": {"command": "grep -q hello NEWS"}},
    "news-fr": {"description": "Announce it in French",
                "instructions": "here=$HARNESS_STATE_ROOT/..; touch $here/fr\nwhile [ $HARNESS_ATTEMPT = 1 ] && ! [ -e $here/en ]; do sleep 0.02; done\necho 'Il dit bonjour.' >> NEWS",
                "validation": {"command": "grep -q bonjour NEWS"}}
  }
}
```
"#;
