//! One agent process from its start to its single end.
//!
//! A job has no task of its own: the caller of [`Job::next`] drives it, and the agent waits while
//! its output is not read. All state is in the handle, so cancelling a `next` in a `select!` loses
//! nothing, and dropping the handle ends the tree.

mod control;
mod error;
mod spec;
mod state;

use std::{
    path::PathBuf,
    time::{Duration, SystemTime},
};

use harness_core::agent::StoppedBy;
use tokio::{net::UnixStream, task::JoinHandle, time::Instant};

pub use error::{JobStartError, JobWarning};
pub use spec::{Limits, Spec, Stdin};
pub use state::{Finished, JobEvent, JobExit, JobState};

use super::{
    guard::{Label, wire::LineBuffer},
    leftovers::{self, Process, Record},
    pipes::{Pipes, Ready},
    spawner::{self, GuardProcess, Started},
};

/// The time that a guard may take to report a start, or, beyond the grace, the end of a tree. Then
/// it is killed too.
const GUARD_SLACK: Duration = Duration::from_secs(10);

/// Whether silence counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// Silence does not count: a tool runs, or there is no limit.
    Endless,
    Until(Instant),
    /// The silence was reported once.
    Last(Instant),
}

/// One process and everything that it starts. It advances only while [`Job::next`] is called: the
/// agent waits as long as its output is not read. When it is dropped, it kills the whole tree.
#[derive(Debug)]
pub struct Job {
    id: String,
    state: JobState,
    started: Instant,
    limits: Limits,
    control: UnixStream,
    reports: LineBuffer,
    guard: Option<GuardProcess>,
    warning: Option<JobWarning>,
    record: Option<PathBuf>,
    pipes: Pipes,
    patience: Patience,
    exit: Option<JobExit>,
    stopped_by: Option<StoppedBy>,
    /// The time by which the guard should have reported that nothing is left.
    overdue_at: Option<Instant>,
    /// Searches for leftovers of a guard that ended early.
    sweep: Option<JoinHandle<leftovers::Ended>>,
    /// The processes that are left of the tree, once they are known.
    left: Option<Vec<u32>>,
}

/// The result of a wait.
enum Happened {
    Ready(Ready),
    Control,
    Swept(leftovers::Ended),
    Silence,
    Timeout,
    Overdue,
}

impl Job {
    /// Returns when the program runs, or when its guard did not report that in time, perhaps
    /// because the agent stopped it. The job then ends, and the agent with it. If the future is
    /// dropped before, nothing is left.
    pub async fn start(spec: Spec) -> Result<Job, JobStartError> {
        let label = Label::of(spec.environment.iter().map(|(name, value)| (name, value)));
        let id = label.new_job();
        let started = spawner::start(label).await.map_err(JobStartError::Guard)?;
        Job::under(started, id, spec).await
    }

    async fn under(started: Started, id: String, spec: Spec) -> Result<Job, JobStartError> {
        let launch = spec.launch(&id);
        let (pipes, theirs) = Pipes::open(spec.stdin).map_err(JobStartError::Io)?;
        started.control.set_nonblocking(true).map_err(JobStartError::Io)?;
        let control = UnixStream::from_std(started.control).map_err(JobStartError::Io)?;
        let mut record = Record::new(&id, &spec.label, spec.limits.grace);
        record.guard = started.guard.as_ref().map(|guard| Process::of(guard.pid));
        // The record is written before the order to launch, so that the agent can be found at any
        // moment. The guard alone need not be found.
        let path = spec.records.as_deref().map(|folder| record.write(folder)).transpose();
        let now = Instant::now();
        let mut job = Job {
            id,
            state: JobState::Pending,
            started: now,
            patience: Patience::from(spec.limits.stall, now),
            limits: spec.limits,
            control,
            reports: LineBuffer::default(),
            guard: started.guard,
            warning: started.is_first_unguarded.then_some(JobWarning::NoGuard),
            record: path.map_err(JobStartError::Record)?,
            pipes,
            exit: None,
            stopped_by: None,
            overdue_at: None,
            sweep: None,
            left: None,
        };
        let within = job.limits.timeout.map_or(GUARD_SLACK, |limit| limit.min(GUARD_SLACK));
        let Ok(launched) = tokio::time::timeout(within, job.launch(&launch, theirs)).await else {
            job.stopped_by = Some(StoppedBy::Timeout).filter(|_| within < GUARD_SLACK);
            job.replace_guard();
            return Ok(job);
        };
        let pid = launched?;
        job.state = JobState::Running { pid, since: SystemTime::now() };
        if let Some(folder) = spec.records.as_deref() {
            record.agent = Some(Process::of(pid));
            record.write(folder).map_err(JobStartError::Record)?;
        }
        Ok(job)
    }

    /// Returns the state as of the last [`Job::next`].
    #[must_use]
    pub fn state(&self) -> &JobState {
        &self.state
    }

    /// Returns the value of `HARNESS_JOB` in the environment of the agent.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns a warning for the user, at most once in a program.
    pub fn take_warning(&mut self) -> Option<JobWarning> {
        self.warning.take()
    }

    /// Returns the process id of the guard, if there is one.
    #[must_use]
    pub fn guard(&self) -> Option<u32> {
        self.guard.as_ref().map(|guard| guard.pid)
    }

    /// Returns the next event; `None` once nothing of the job is left and [`Job::state`] is
    /// `Finished`.
    pub async fn next(&mut self) -> Option<JobEvent> {
        while !matches!(self.state, JobState::Finished(_)) {
            if let Some(left) = self.left.take() {
                if let Some(chunk) = self.pipes.drain() {
                    self.left = Some(left);
                    return Some(JobEvent::Output(chunk));
                }
                self.finish(left);
                break;
            }
            // A flood of output must not delay the deadline, so it is not left to the wait alone.
            if self.deadline().is_some_and(|at| Instant::now() >= at) {
                self.request_stop(StoppedBy::Timeout);
            }
            let happened = self.wait().await;
            if let Some(event) = self.handle(happened) {
                return Some(event);
            }
        }
        None
    }

    /// Requests the end: TERM to the whole tree, [`Limits::grace`], KILL. [`Job::next`] continues
    /// until it has come. The first request determines who stopped it.
    pub fn request_stop(&mut self, by: StoppedBy) {
        if self.stopped_by.is_some() || matches!(self.state, JobState::Finished(_)) {
            return;
        }
        self.stopped_by = Some(by);
        self.expect_end();
        self.tell(self.limits.grace);
    }

    /// Calls [`Job::request_stop`] and discards everything that still comes.
    pub async fn stop(&mut self, by: StoppedBy) -> Option<&Finished> {
        self.request_stop(by);
        self.wait_for_end().await
    }

    /// Discards everything until the end. It never returns `None`.
    pub async fn wait_for_end(&mut self) -> Option<&Finished> {
        while self.next().await.is_some() {}
        match &self.state {
            JobState::Finished(finished) => Some(finished),
            JobState::Pending | JobState::Running { .. } => None,
        }
    }

    /// Writes to an agent whose standard input was left open, as fast as the agent reads. An agent
    /// that is gone, or that does not read while megabytes wait for it, receives nothing more.
    pub fn say(&mut self, bytes: &[u8]) {
        self.pipes.say(bytes);
    }

    /// Ends the input. The agent sees its end once everything is written.
    pub fn hang_up(&mut self) {
        self.pipes.hang_up();
    }

    /// Ignores silence from now on, because a tool is known to run.
    pub fn ignore_silence(&mut self) {
        self.patience = Patience::Endless;
    }

    /// Counts silence again, from now.
    pub fn mind_silence(&mut self) {
        self.patience = Patience::from(self.limits.stall, Instant::now());
    }

    fn expect_end(&mut self) {
        let at = Instant::now().checked_add(self.limits.grace.saturating_add(GUARD_SLACK));
        self.overdue_at = self.overdue_at.or(at);
    }

    fn deadline(&self) -> Option<Instant> {
        let at = self.limits.timeout.and_then(|limit| self.started.checked_add(limit));
        at.filter(|_| self.stopped_by.is_none() && self.exit.is_none())
    }

    /// Waits. This is the only place that does. It changes nothing, so it can be cancelled at any
    /// time. Output takes precedence over timers.
    async fn wait(&mut self) -> Happened {
        let silence = match self.patience {
            Patience::Until(at) | Patience::Last(at) if self.exit.is_none() => Some(at),
            Patience::Until(_) | Patience::Last(_) | Patience::Endless => None,
        };
        let (deadline, overdue) = (self.deadline(), self.overdue_at);
        let is_sweeping = self.sweep.is_some();
        let heard = async {
            tokio::select! {
                ready = self.pipes.ready() => Happened::Ready(ready),
                _ = self.control.readable(), if !is_sweeping => Happened::Control,
                ended = swept(self.sweep.as_mut()) => Happened::Swept(ended),
            }
        };
        tokio::select! {
            biased;
            happened = heard => happened,
            () = at(deadline) => Happened::Timeout,
            () = at(overdue), if !is_sweeping => Happened::Overdue,
            () = at(silence) => Happened::Silence,
        }
    }

    /// Updates the state of the job. This is the only place that does.
    fn handle(&mut self, happened: Happened) -> Option<JobEvent> {
        match happened {
            Happened::Ready(Ready::Output(source)) => {
                let chunk = self.pipes.read(source)?;
                if self.patience != Patience::Endless {
                    self.mind_silence();
                }
                return Some(JobEvent::Output(chunk));
            }
            Happened::Ready(Ready::Input) => self.pipes.feed(),
            Happened::Control => self.hear(),
            Happened::Swept(ended) => {
                self.sweep = None;
                self.left = Some(ended.left);
            }
            Happened::Timeout => self.request_stop(StoppedBy::Timeout),
            Happened::Overdue => self.replace_guard(),
            Happened::Silence => {
                if let Patience::Last(_) = self.patience {
                    self.patience = Patience::Endless;
                    self.request_stop(StoppedBy::Stall);
                } else {
                    let silent = self.limits.stall.unwrap_or_default();
                    self.patience = Patience::Last(Instant::now() + silent);
                    return Some(JobEvent::Stalled { silent });
                }
            }
        }
        None
    }

    fn finish(&mut self, left: Vec<u32>) {
        if left.is_empty() {
            self.forget();
        }
        self.state = JobState::Finished(Finished {
            exit: self.exit.unwrap_or(JobExit::Unknown),
            stopped_by: self.stopped_by,
            duration: self.started.elapsed(),
            left,
        });
    }

    /// Removes the record, because nothing is left to be found. A sweep removes a record that
    /// stays.
    fn forget(&mut self) {
        if let Some(record) = self.record.take() {
            let _ = std::fs::remove_file(record);
        }
    }
}

impl Drop for Job {
    /// Kills the tree without waiting: the guard ends it, whatever happens to us. Without a guard
    /// the record stays, because we may be gone before the thread is done.
    fn drop(&mut self) {
        if matches!(self.state, JobState::Finished(_)) {
            return;
        }
        self.tell(Duration::ZERO);
        if self.guard.is_some() && self.sweep.is_none() {
            self.forget();
        }
    }
}

impl Patience {
    fn from(stall: Option<Duration>, now: Instant) -> Patience {
        stall.and_then(|stall| now.checked_add(stall)).map_or(Patience::Endless, Patience::Until)
    }
}

async fn at(instant: Option<Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => std::future::pending().await,
    }
}

async fn swept(sweep: Option<&mut JoinHandle<leftovers::Ended>>) -> leftovers::Ended {
    match sweep {
        // This fails only when the runtime ends, and we with it.
        Some(sweep) => sweep.await.unwrap_or_default(),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
