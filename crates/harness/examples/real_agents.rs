//! Claude Code plans, Codex codes, and the check of the project decides when it is done.
//!
//! ```sh
//! cargo run -p harness-supervisor --example real_agents -- FOLDER 'cargo test' 'Add a --json flag'
//! ```
//!
//! Both programs must be installed and logged in. FOLDER is a work tree whose changes you can undo.

use std::path::PathBuf;

use harness::{
    Cx, Error, Harness, Named, Result,
    agent::{ClaudeAgent, ClaudeSettings, CodexAgent, Prompt},
    check::Check,
    core::{agent::End, check::Verdict},
    guard, named,
    process::Allowed,
    shell::{Cancel, SystemShell},
    terminal,
};

/// The limit of Codex's attempts to make the check pass.
const TRIES: u32 = 3;
const CHECK_SECONDS: u64 = 600;

struct Team {
    planner: Named<ClaudeAgent>,
    coder: Named<CodexAgent>,
}

#[derive(Clone)]
struct Job {
    tree: PathBuf,
    check: String,
    wish: String,
}

impl Job {
    fn prompt(&self, text: String) -> Prompt {
        Prompt::new(text).in_tree(&self.tree).environment(std::env::vars_os())
    }

    /// Returns the end of the output if the check fails.
    fn complaint(&self) -> Result<Option<String>> {
        let check = Check {
            command: self.check.clone(),
            timeout_seconds: CHECK_SECONDS,
            environment: Vec::new(),
        };
        let checked = check.run_in(&SystemShell::default(), &self.tree, &Cancel::new()?)?;
        let output = String::from_utf8_lossy(&checked.ran.tail).into_owned();
        Ok((checked.verdict != Verdict::Passed).then_some(output))
    }
}

/// Returns the final text of an agent that ended properly.
fn final_text(end: End) -> Result<String> {
    match end {
        End::Finished { final_text, .. } => Ok(final_text),
        other => Err(Error::message(format!("the agent did not finish: {other:?}"))),
    }
}

async fn work(cx: &mut Cx<'_, Job, Team>) -> Result<u32> {
    let plan = cx
        .phase("Planning", async |cx| {
            let ask = format!(
                "Read this project and write a short plan for the following. Change no file.\n\n{}",
                cx.state.wish
            );
            let prompt = cx.state.prompt(ask);
            final_text(cx.execute(|team| &team.planner, prompt).await?)
        })
        .await?;
    cx.phase("Coding", async |cx| {
        let mut ask = format!("Carry out this plan:\n\n{plan}");
        for number in 1..=TRIES {
            let prompt = cx.state.prompt(ask);
            cx.task(format!("try {number}"), async |cx| {
                final_text(cx.execute(|team| &team.coder, prompt).await?)
            })
            .await?;
            let Some(output) = cx.state.complaint()? else { return Ok(number) };
            ask = format!("`{}` still fails. Fix it.\n\n{output}", cx.state.check);
        }
        Err(Error::message("the check still fails"))
    })
    .await
}

#[tokio::main(flavor = "current_thread")]
async fn run(job: Job) -> Result<()> {
    let claude = ClaudeAgent::new(ClaudeSettings::default()).map_err(Error::other)?;
    let codex = CodexAgent::new("codex", Allowed::codex()).map_err(Error::other)?;
    let flow = Harness::define("plan-and-code")
        .agents(Team { planner: named("claude", claude), coder: named("codex", codex) })
        .state(Job::clone)
        .run(work);
    let done = flow.create(job).attach(terminal()).run().await?;
    println!("done after {} tries", done.result);
    Ok(())
}

fn main() -> Result<()> {
    // This comes first. The program, started again, guards the agents, so that none of them
    // survives it.
    guard::init();
    let mut args = std::env::args().skip(1);
    let (Some(tree), Some(check), Some(wish)) = (args.next(), args.next(), args.next()) else {
        return Err("usage: real_agents FOLDER CHECK WISH".into());
    };
    run(Job { tree: tree.into(), check, wish })
}
