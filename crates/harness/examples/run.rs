//! Works the ledger of a repository as `harness run` does, with an agent of your own: with a row in the
//! record of runs, a budget, and a resume after the budget was spent.
//!
//! ```sh
//! cargo run -p harness-supervisor --example run -- REPOSITORY STATE_HOME
//! ```
//!
//! The first call stops when its budget is spent, after the first of two tasks. The second call
//! resumes it. `harness runs list` in REPOSITORY shows the row.

use std::{error::Error, fs, path::PathBuf, sync::Arc};

use harness::{
    Agent, Execution, Observers, Project, Transaction,
    agent::Prompt,
    core::{
        Command, Run, WorkerId,
        agent::{AgentEvent, End, Usage},
        command::{Add, Anew},
        lease::SESSION_LEASE_SECONDS,
        machine::{
            scope::TaskScope,
            session::{SessionTerms, WhenFull},
        },
        run::{RunLimits, RunStatus},
    },
    flows::Team,
    named,
    project::{RunError, RunOptions, RunStart, new_run_id},
    store::{Locking, Store as _, lock::Wait},
    workspace::{Filters, GitWorkspace},
};

/// The usage of one context of the agent.
const CONTEXT_TOKENS: u64 = 10;

/// Writes its instructions into a file, and reports the cost.
struct Greeter;

impl Agent for Greeter {
    type Input = Prompt;
    type Output = End;

    async fn execute(&self, prompt: Prompt, execution: &mut Execution) -> harness::Result<End> {
        let usage = Usage { input_tokens: CONTEXT_TOKENS, ..Usage::default() };
        execution.tell(AgentEvent::Usage(usage));
        let text = prompt.instructions.unwrap_or_default();
        fs::write(prompt.work_tree.join("greeting.txt"), text)?;
        Ok(End::Finished { final_text: prompt.promise, usage })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    // This must be the first call, so that nothing that a check starts outlives it.
    harness::guard::init();
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let (root, state_home) =
        arguments.next().zip(arguments.next()).ok_or("usage: run REPOSITORY STATE_HOME")?;
    let project = Project::open(&root)?.with_state_home(Some(state_home));
    found(&project)?;

    // A run holds the lock of the root for its whole life.
    let held = project.hold()?;
    let start = match project.resumable(None) {
        Ok(run) => {
            let max_tokens = Some(run.usage.tokens() + 10 * CONTEXT_TOKENS);
            RunStart::Resume { run: run.into(), anew: Anew { max_tokens, ..Anew::default() } }
        }
        Err(RunError::NothingToResume) => {
            let max_tokens = Some(CONTEXT_TOKENS);
            let limits = RunLimits { max_iterations: 3, max_tokens, ..RunLimits::default() };
            let row = Run::queued(new_run_id(), project.clock().now());
            RunStart::New(Box::new(Run { agent: "greeter".to_owned(), limits, ..row }))
        }
        Err(why) => return Err(why.into()),
    };
    let run = project.begin(&held.guard, start)?;
    run.warnings().iter().for_each(|warning| eprintln!("{warning}"));
    let log = |made: &Transaction<'_>| eprint!("{}", made.log);
    let observers = Observers::default().with(log);
    let engine = project.engine_of(&run, Locking::Held(held.guard), run.hub(), observers)?;

    let workspace = GitWorkspace::discover(&root, &root, Filters::Off)?;
    let options = RunOptions::new(Arc::new(workspace));
    let terms = SessionTerms {
        worker: WorkerId::parse("example")?,
        scope: TaskScope::Ledger,
        labels: Vec::new(),
        pid: std::process::id(),
        lease_seconds: SESSION_LEASE_SECONDS,
        max_tasks: 0,
        max_sessions: None,
        crew: None,
        when_full: WhenFull::Continue,
        until: None,
        heartbeat: None,
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let team = Team::of(named("greeter", Greeter));
    let stop = runtime.block_on(engine.work(&run, team, options, terms))?;

    // The engine ends when no request can reach it any more.
    drop(runtime);
    engine.end()?;
    let row = run.stored()?;
    println!("{}: {}, {} tokens", stop.reason, row.status, row.usage.tokens());
    if row.status == RunStatus::Succeeded {
        println!("{}", fs::read_to_string(root.join("greeting.txt"))?.trim_end());
    }
    Ok(())
}

/// Creates a ledger with two tasks if there is none.
fn found(project: &Project) -> Result<(), Box<dyn Error>> {
    if project.snapshot().is_ok() {
        return Ok(());
    }
    let mut store = project.file_store(Locking::Each(Wait::No))?;
    _ = store.create(project.clock().now())?;
    let greeting = |whom: &str| {
        let mut add = Add::new(format!("greet the {whom}"));
        add.fields.instructions = Some(format!("Hello, {whom}!\n"));
        add.fields.validation_command = Some(format!("grep -q {whom} greeting.txt"));
        Command::Add(add)
    };
    let tasks = [greeting("world"), greeting("moon")];
    let added = store.apply(project.clock().now(), &tasks)?;
    added.replies.into_iter().try_for_each(|reply| reply.map(drop))?;
    Ok(())
}
