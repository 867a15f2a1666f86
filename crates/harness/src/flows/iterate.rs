//! Performs the loop over contexts: the same prompt again and again, each time in a fresh context,
//! until the promise is kept. (The technique is widely known as "ralph".) The machine of that name
//! decides what to do and in which order.

use std::{
    collections::HashSet,
    ffi::OsString,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use super::{
    Bench, Team, bench::file_name, gate::gate, handoff, loop_settings::purse,
    objective::ObjectiveLog, tools::until_cancelled, words,
};
use harness::{
    Branch, Error, Event, Result,
    agent::Prompt,
    check::Check,
    core::{
        Command, Holder, Run, Stop, Task, Timestamp,
        agent::{End, StoppedBy},
        command::{Anew, Note, OfRun, RunStep, RunView, Take},
        ledger::Phase,
        machine::{
            gate::Waiting,
            iterate::{Brief, Effect, Ended, Iterate, Turn},
        },
        variables::OF_A_TASK,
    },
    home::Home,
    process::Limits,
    workspace::Sight,
};

/// The time limit of the run's own check.
const VERIFY_SECONDS: u64 = 3600;
/// The amount of a check's output that the next context receives.
const OUTPUT_BYTES: usize = 8 * 1024;

/// The purpose of a loop.
#[derive(Clone)]
pub enum Errand {
    /// The objective of a run.
    Objective {
        /// Whether a person resumed it after it had stopped.
        afresh: bool,
    },
    /// A task that is claimed.
    Task {
        /// The task as it was claimed or found.
        task: Box<Task>,
        /// The holder of the claim.
        holder: Holder,
        /// The last step that is done.
        after_step: Option<u32>,
    },
}

/// Runs context after context until the promise is kept or something stops the loop.
pub async fn iterate<A>(cx: &Branch<Team<A>>, bench: &Bench, errand: Errand) -> Result<Stop>
where
    A: harness::Agent<Input = Prompt, Output = End>,
{
    let brief = brief(bench, &errand).await?;
    let run = brief.run.clone();
    let doing = Doing {
        bench: bench.clone(),
        errand: Arc::new(errand),
        run: Arc::new(run),
        warned: Arc::default(),
        logged: Arc::default(),
        transcripts: brief.rules.transcripts.clone(),
    };
    doing.log().started(&brief.iterations).await;
    let branch = cx.apart();
    let outcome = branch.drive(&bench.tools.ports, Iterate::new(brief), |branch, effect| {
        let doing = doing.clone();
        async move { doing.perform(branch, effect).await }
    });
    let stop = match &bench.own {
        None => outcome.await?,
        Some(place) => tokio::select! {
            stop = outcome => stop?,
            () = place.shared.guard_budget(&branch, &bench.tools) => {
                return Err(Error::message("the watch over a budget does not end"));
            }
        },
    };
    doing.log().ended(&stop).await;
    Ok(stop)
}

/// Returns what is stored of the run, with the run that pays for it.
async fn brief(bench: &Bench, errand: &Errand) -> Result<Brief> {
    let tools = &bench.tools;
    let loops = tools.loops.clone();
    let now = tools.ports.clock.now();
    let mut rules = loops.rules.clone();
    let (run, afresh, phases) = match errand {
        Errand::Objective { afresh } => {
            let phases = tools.read_ledger().await?.head().phases.clone();
            (tools.run_row(&loops.run).await?, *afresh, phases)
        }
        Errand::Task { task, .. } => {
            let run = open(bench, task, now).await?;
            rules.until = task.timeout_seconds.map(|seconds| now.plus(seconds));
            let afresh = run.status.is_over();
            (run, afresh, Vec::new())
        }
    };
    rules.transcripts = format!("{}/{}", Home::TRANSCRIPTS, file_name(&run));
    let by = run.task.is_none().then(|| loops.by.clone()).flatten();
    let payer = match &run.parent {
        Some(parent) => tools.run_row(parent).await?,
        None => run.clone(),
    };
    let id = run.id.clone();
    let iterations = tools.with_runs(move |runs| Ok(runs.iterations(&id)?)).await?;
    let purse = purse(&payer);
    Ok(Brief { run, iterations, by, purse, rules, phases, afresh })
}

/// Returns the row of an attempt, new or left by a crash, with the current settings of the run over
/// the ledger. The returned status is the one that it was found with.
async fn open(bench: &Bench, task: &Task, now: Timestamp) -> Result<Run> {
    let tools = &bench.tools;
    let loops = tools.loops.clone();
    let mut parent = tools.run_row(&loops.run).await?;
    // One of several workers of the run may have another agent.
    if let Some(agent) = &tools.judging.agent {
        parent.agent.clone_from(agent);
    }
    let row = bench.attempt_row(&parent, (loops.new_id)(), task, now);
    let anew = Anew {
        agent: Some(parent.agent),
        agent_command: Some(parent.agent_command),
        completion_promise: Some(parent.completion_promise),
        max_iterations: Some(parent.limits.max_iterations),
        parent: Some(parent.id),
        ..Anew::default()
    };
    let take = Take { anew, ..Take::default() };
    // A new row is stored as if it had been taken up already, which saves a transaction.
    let queued = row.status;
    let row = taken_up(row, &take, now)?;
    let id = row.id.clone();
    let (place, secrets) = (bench.handoff.clone(), tools.redactor.clone());
    let task = task.id.clone();
    let found = tools.with_runs(move |runs| {
        // This happens before there is a row: a process that finds a row assumes that the files
        // belong to this attempt.
        handoff::hand_over(&place, runs, &task, &secrets)?;
        Ok(runs.open_run(&row)?)
    });
    let found = found.await?;
    if found.id == id {
        return Ok(Run { status: queued, ..found });
    }
    let take = OfRun { run: found.id.clone(), by: None, step: RunStep::Take(take) };
    tools.commit(take.into()).await?;
    Ok(Run { status: found.status, ..tools.run_row(&found.id).await? })
}

/// Returns a new row as it is after a process took it up.
fn taken_up(row: Run, take: &Take, now: Timestamp) -> Result<Run> {
    let of_run = OfRun { run: row.id.clone(), by: None, step: RunStep::Take(take.clone()) };
    let change = of_run.decide(&RunView { run: row, last: None, parent: None }, now);
    Ok(change.map_err(Error::other)?.run)
}

#[derive(Clone)]
pub(super) struct Doing {
    pub(super) bench: Bench,
    pub(super) errand: Arc<Errand>,
    pub(super) run: Arc<Run>,
    /// Warnings that were given already.
    warned: Arc<Mutex<HashSet<String>>>,
    /// The last context that has a line in the log.
    logged: Arc<Mutex<Option<u32>>>,
    transcripts: String,
}

impl Doing {
    async fn perform<A>(self, branch: Branch<Team<A>>, effect: Effect) -> Result<Ended>
    where
        A: harness::Agent<Input = Prompt, Output = End>,
    {
        match effect {
            Effect::Look => self.look().await,
            Effect::Work(turn) => self.work(&branch, turn).await,
            Effect::Gate { phase, until } => self.gate(&branch, phase, until).await,
            Effect::Verify { command, until } => self.verify(&branch, command, until).await,
            Effect::Sleep { until } => self.sleep(&branch, until).await,
        }
    }

    /// Looks at the work tree. If git fails, no mark is returned, because that is no standstill.
    async fn look(&self) -> Result<Ended> {
        let Ok((head, files)) = self.bench.git(|git| git.mark(Sight::Last)).await? else {
            return Ok(Ended::Looked { head: None, mark: None });
        };
        let place = self.bench.handoff.clone();
        let handoff = self.bench.tools.blocking(move || Ok(handoff::mark(&place))).await?;
        let mark = Some(format!("{head} {files} {handoff}"));
        Ok(Ended::Looked { head: Some(head), mark })
    }

    fn log(&self) -> ObjectiveLog<'_> {
        ObjectiveLog { tools: &self.bench.tools, run: &self.run }
    }

    /// Writes one line per context. A nudge continues the same context.
    async fn log_context(&self, number: u32) {
        let fresh = {
            let mut logged = self.logged.lock().unwrap_or_else(PoisonError::into_inner);
            logged.replace(number) != Some(number)
        };
        if fresh {
            self.log().context(number).await;
        }
    }

    async fn work<A>(&self, branch: &Branch<Team<A>>, turn: Turn) -> Result<Ended>
    where
        A: harness::Agent<Input = Prompt, Output = End>,
    {
        let _at_work = match (&*self.errand, branch.told()) {
            (Errand::Task { holder, .. }, Some(told)) => {
                Some(self.bench.tools.desk.sit(holder.clone(), told))
            }
            _ => None,
        };
        branch.emit(Event::RunIteration {
            row_id: self.run.id.clone(),
            task_id: self.run.task.clone(),
            epoch: self.run.epoch,
            iteration: turn.number,
            max_iterations: self.run.limits.max_iterations,
        });
        self.log_context(turn.number).await;
        self.bench.workspace.disturbed();
        let agent = turn.agent;
        let prompt = self.prompt(branch, &turn).await?;
        let end = tokio::select! {
            end = branch.execute(move |team| team.agent(agent), prompt) => end?,
            () = self.keep_deadline(branch) => {
                return Err(Error::message("the watch over the time does not end"));
            }
        };
        Ok(Ended::Worked(end))
    }

    /// Stops the agent when a time limit is over that was set while it works. The one that it was
    /// started with is a limit of its process. It never completes.
    async fn keep_deadline<A: Send + Sync>(&self, branch: &Branch<A>) {
        let mut allowances = branch.hub().allowances();
        loop {
            let deadline = allowances.borrow_and_update().and_then(|now| now.deadline);
            let left = async {
                match deadline {
                    Some(end) => {
                        let now = self.bench.tools.ports.clock.now();
                        tokio::time::sleep(Duration::from_secs(end.since(now))).await;
                    }
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                changed = allowances.changed() => {
                    if changed.is_err() {
                        return std::future::pending().await;
                    }
                }
                () = left => {
                    branch.stop(StoppedBy::Budget);
                    return std::future::pending().await;
                }
            }
        }
    }

    async fn prompt<A>(&self, branch: &Branch<Team<A>>, turn: &Turn) -> Result<Prompt>
    where
        A: harness::Agent<Input = Prompt, Output = End>,
    {
        let text = words::words(self, branch, turn).await?;
        // The text is redacted, whatever it was composed from.
        let text = self.bench.tools.redactor.text(&text).into_owned();
        let now = self.bench.tools.ports.clock.now();
        let instructions = match &*self.errand {
            // The objective is stored without secrets, but a script must run as it was written.
            Errand::Objective { .. } => {
                self.run.objective.as_deref().map(|text| self.bench.tools.redactor.reveal(text))
            }
            Errand::Task { task, .. } => {
                task.instructions.as_deref().map(|text| self.bench.tools.redactor.reveal(text))
            }
        };
        let limits = Limits {
            timeout: turn.until.map(|until| Duration::from_secs(until.since(now).max(1))),
            stall: self.bench.tools.stalls.get(turn.agent).copied().flatten(),
            ..Limits::default()
        };
        Ok(Prompt::new(text)
            .in_tree(self.bench.workspace.top_level())
            .folder(Home::of(&self.bench.tools.root).folder())
            .instructions(instructions)
            .promise(&self.run.completion_promise)
            .environment(self.environment(turn.number).await)
            .limits(limits)
            .cost_left_usd(turn.cost_left_usd)
            .kept(turn.kept.clone())
            .run_id(&self.bench.tools.run_id)
            .name(self.free_name(turn.number)))
    }

    /// Returns a free name, so that a second execution in an iteration does not overwrite the first
    /// transcript.
    fn free_name(&self, number: u32) -> String {
        let taken = self.executions(number).count();
        let name = format!("{}.{number}", file_name(&self.run));
        if taken == 0 { name } else { format!("{name}.{}", taken + 1) }
    }

    /// Returns the existing transcripts of an iteration, in order.
    fn executions(&self, number: u32) -> impl Iterator<Item = PathBuf> {
        let name = self.bench.tools.root.join(format!("{}.{number}", self.transcripts));
        let name = name.display().to_string();
        let again = format!("{name}.");
        let names = [format!("{name}.log")]
            .into_iter()
            .chain((2..).map(move |n| format!("{again}{n}.log")));
        names.map(PathBuf::from).take_while(|path| path.exists())
    }

    /// Returns the transcript of the last execution of the previous iteration.
    pub(super) fn last_transcript(&self, number: u32) -> Option<PathBuf> {
        self.executions(number.checked_sub(1)?).last()
    }

    pub(super) async fn environment(&self, iteration: u32) -> Vec<(OsString, OsString)> {
        let mut environment = self.bench.tools.environment.clone();
        let about = match &*self.errand {
            Errand::Task { task, holder, .. } => Some((&**task, holder)),
            Errand::Objective { .. } => {
                environment.retain(|(name, _)| OF_A_TASK.iter().all(|n| name != n));
                None
            }
        };
        if self.bench.tools.socket.is_some() {
            // `off` keeps the caller's commands from a daemon, but the commands of the agent must
            // reach this run.
            environment.retain(|(name, _)| name != "HARNESS_DAEMON");
        }
        let own = self.bench.tools.variables(about, Some(iteration)).await.into_iter();
        environment.extend(own.map(|(name, value)| (name.into(), value.into())));
        environment
    }

    async fn gate<A: Send + Sync>(
        &self,
        branch: &Branch<A>,
        phase: Phase,
        until: Option<Timestamp>,
    ) -> Result<Ended> {
        let waiting = Waiting { run: self.run.id.clone(), by: self.bench.tools.loops.by.clone() };
        gate(branch, &self.bench, phase, Some(waiting), until).await.map(Ended::Gated)
    }

    async fn verify<A>(
        &self,
        branch: &Branch<A>,
        command: String,
        until: Option<Timestamp>,
    ) -> Result<Ended> {
        let environment =
            self.bench.tools.variables(None, self.bench.tools.iteration().await?).await;
        let timeout_seconds = self.bench.tools.seconds_until(until).min(VERIFY_SECONDS);
        let check = Check { command, timeout_seconds, environment };
        let bench = self.bench.clone();
        bench.workspace.disturbed();
        let checked = until_cancelled(branch, move |cancel| {
            Ok(check.run_in(&*bench.tools.shell, bench.workspace.top_level(), cancel)?)
        });
        let checked = checked.await?;
        branch.emit(checked.event(None));
        self.log().checked(&checked.verdict).await;
        let output = self.bench.tools.output(&checked.ran, OUTPUT_BYTES);
        Ok(Ended::Verified { verdict: checked.verdict, output })
    }

    async fn sleep<A>(&self, branch: &Branch<A>, until: Timestamp) -> Result<Ended> {
        // A pause between two contexts is not reported.
        if self.bench.tools.run_row(&self.run.id).await?.wake_at.is_some() {
            let (row_id, task_id) = (self.run.id.clone(), self.run.task.clone());
            branch.emit(Event::RunWaiting { row_id, task_id, until });
        }
        let now = self.bench.tools.ports.clock.now();
        let nap = Duration::from_secs(until.since(now));
        self.bench.workspace.disturbed();
        let kicked = tokio::select! {
            () = tokio::time::sleep(nap) => false,
            () = branch.cancelled().cancelled() => false,
            () = self.bench.tools.desk.kicked() => true,
        };
        Ok(Ended::Woke { kicked })
    }

    /// Writes a warning to the log, once.
    pub(super) async fn warn(&self, message: String) -> Result<()> {
        let message = self.bench.tools.redactor.text(&message).into_owned();
        let fresh = {
            let mut warned = self.warned.lock().unwrap_or_else(PoisonError::into_inner);
            warned.insert(message.clone())
        };
        if fresh {
            let note = Note::Warning { task: self.run.task.clone(), message };
            self.bench.tools.commit(Command::Note(note)).await?;
        }
        Ok(())
    }
}
