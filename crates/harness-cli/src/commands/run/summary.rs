//! The summary at the end of a run: the events and the reason of the stop, the finished and the
//! remaining work, the usage, the places of the results, and the command that continues.

use harness::{
    core::{
        Iteration, Ledger, Run, Standing, Stats, Stop, Task, machine::scope::TaskScope,
        run::StopReason, stop::StopDetail, task::Status,
    },
    home::Home,
    view::{NextStep, TargetCard},
};

use super::{
    account::Account,
    money, scope,
    stop::{RunReport, remark},
};
use crate::{paint::one_line, task_line::Span, tool_line::cut};

/// The number of characters of an objective that are shown.
const OBJECTIVE_CHARS: usize = 72;

pub(super) struct Summary<'a> {
    pub(super) report: &'a RunReport<'a>,
    pub(super) account: &'a Account,
    /// The ledger when the run began.
    pub(super) before: &'a Ledger,
    /// The contexts of an objective.
    pub(super) iterations: &'a [Iteration],
    pub(super) branch: Option<&'a str>,
    /// The number of results that the branch of the user lacks.
    pub(super) ahead: Option<u32>,
    pub(super) seconds: u64,
    /// The flags that start as many workers again, after a space.
    pub(super) crew: String,
}

impl Summary<'_> {
    /// Returns the lines. The first one describes the end; the others are indented.
    pub(super) fn lines(&self) -> Vec<String> {
        let rows = match self.run().objective {
            Some(_) => self.of_objective(),
            None => self.of_ledger(),
        };
        let used = ("used", Some(self.used()));
        let next = ("next", Some(self.next()));
        let rows = rows.into_iter().chain([used, next]);
        let rows = rows.filter_map(|(name, text)| Some(format!("  {name:<11}  {}", text?)));
        [self.head()].into_iter().chain(rows).map(|line| one_line(&line).into_owned()).collect()
    }

    fn run(&self) -> &Run {
        self.report.run
    }

    fn stop(&self) -> &Stop {
        self.report.stop
    }

    fn head(&self) -> String {
        let reason = self.stop().reason;
        match reason {
            StopReason::Complete => self.completed(),
            StopReason::Once => match self.stop().words() {
                Some(waiting) => match self.report.scope {
                    TaskScope::Ledger => self.stopped(waiting),
                    TaskScope::Tasks(_) => self.stopped(&format!("of the chosen tasks, {waiting}")),
                },
                None => self.stopped("only one session was asked for (--once)"),
            },
            StopReason::MaxSessions => {
                let used = self.report.ledger.head().session_count;
                self.stopped(&format!("the ledger has had {used} sessions, as many as it may"))
            }
            StopReason::Cancelled => match &self.account.aborted {
                Some(Some(words)) => self.stopped(&format!("by `harness abort`: {words}")),
                Some(None) => self.stopped("by `harness abort`"),
                None => self.stopped("it was interrupted"),
            },
            StopReason::Config | StopReason::EnvSetup | StopReason::Crashed => {
                self.stopped("the error below says why")
            }
            StopReason::MaxIterations
            | StopReason::Budget
            | StopReason::Stalled
            | StopReason::Limit
            | StopReason::Gate => self.stopped(&remark(self.stop()).unwrap_or_default()),
        }
    }

    fn stopped(&self, why: &str) -> String {
        format!("stopped ({}): {why}", self.stop().reason)
    }

    fn completed(&self) -> String {
        if self.stop().is_alerted() {
            return "finished, but something needs your attention: see `harness status`".to_owned();
        }
        if self.run().objective.is_some() {
            return match &self.run().verify {
                Some(command) => {
                    format!("done: the agent kept its promise, and the check passed: {command}")
                }
                None => "done: the agent says so; no --verify command checked it".to_owned(),
            };
        }
        let total = self.report.tasks().count();
        let completed = self.report.tasks().filter(|t| t.status() == Status::Completed).count();
        let failed = self.report.tasks().filter(|task| task.failed_for_good()).count();
        let of_run = |task: &&Task| self.report.scope.contains(&task.id);
        let had_work = self.before.tasks().filter(of_run).any(Task::unfinished);
        match (had_work || !self.account.completed.is_empty(), total, failed) {
            (false, 0, _) => "nothing to do: the ledger has no tasks".to_owned(),
            (false, _, 0) => match self.report.scope {
                TaskScope::Ledger => "nothing to do: every task is completed".to_owned(),
                TaskScope::Tasks(_) => "nothing to do: every chosen task is completed".to_owned(),
            },
            (false, _, _) => "nothing to do: what is not completed has failed for good".to_owned(),
            (true, _, 0) => format!("done: {}", tasks(completed, "completed")),
            (true, _, failed) => {
                format!("finished: {}, {failed} failed for good", tasks(completed, "completed"))
            }
        }
    }

    /// Returns the number of tasks that get no further attempt.
    fn failed(&self) -> usize {
        self.report.ledger.tasks().filter(|task| task.failed_for_good()).count()
    }

    fn of_ledger(&self) -> Vec<(&'static str, Option<String>)> {
        let ledger = self.report.ledger;
        let left = ledger.tasks().filter(|task| task.unfinished()).count();
        let completed = Stats::of(ledger).completed;
        let counts = format!("{completed} completed, {} failed, {left} left", self.failed());
        let attempts = match self.account.failed_attempts {
            0 => None,
            1 => Some("1 failed; `harness rescue list` shows what it left".to_owned()),
            many => Some(format!("{many} failed; `harness rescue list` shows what they left")),
        };
        let worked = !self.account.completed.is_empty() || self.account.failed_attempts > 0;
        vec![
            ("tasks", (!ledger.is_empty()).then_some(counts)),
            ("attempts", attempts),
            ("commits", self.commits()),
            ("results", self.results()),
            ("transcripts", worked.then(transcripts)),
        ]
    }

    fn commits(&self) -> Option<String> {
        let commits = self.account.completed.iter().filter_map(|(_, commit)| commit.as_ref());
        let commits: Vec<&str> = commits.map(|commit| commit.short()).collect();
        let place = match self.branch {
            Some(branch) => format!("on {branch}"),
            None => "on no branch".to_owned(),
        };
        match commits[..] {
            [] => None,
            [only] => Some(format!("{only} {place}")),
            [first, .., last] => Some(format!("{}, {first} to {last}, {place}", commits.len())),
        }
    }

    /// Returns where the results are, if they are not on the branch of the user.
    fn results(&self) -> Option<String> {
        if let Some(proposal) = self.report.proposal {
            return Some(proposal.text());
        }
        let target = TargetCard::of(&self.report.ledger.head().session_config, self.ahead)?;
        target.hint().map(|hint| hint.to_string())
    }

    fn of_objective(&self) -> Vec<(&'static str, Option<String>)> {
        let objective = self.run().objective.as_deref().unwrap_or_default();
        let count = self.iterations.len();
        let failed = self.iterations.iter().filter_map(|one| one.ending);
        let failed = failed.filter(|ending| ending.is_failure()).count();
        let contexts = match failed {
            0 => count.to_string(),
            _ => format!("{count}, of which {failed} failed"),
        };
        vec![
            ("objective", Some(cut(&one_line(objective), OBJECTIVE_CHARS))),
            ("contexts", (count > 0).then_some(contexts)),
            ("results", Some("harness commits nothing here; see `git status`".to_owned())),
            ("transcripts", (count > 0).then(transcripts)),
        ]
    }

    fn used(&self) -> String {
        let time = Span(self.seconds);
        match self.run().usage.tokens() > 0 || self.run().usage.cost_usd.is_some() {
            true => format!("{time}, {}", money::against(&self.run().usage, &self.run().limits)),
            false => time.to_string(),
        }
    }

    fn next(&self) -> String {
        let run = self.run();
        let tasks = format!("{}{}", self.crew, scope::flags(self.report.scope));
        let resume = format!("harness run --resume --run-id {}{tasks}", run.id);
        let over_ledger = run.objective.is_none();
        match self.stop().reason {
            StopReason::Complete if !over_ledger => "git status".to_owned(),
            StopReason::Complete if self.report.ledger.is_empty() => "harness add TITLE".to_owned(),
            StopReason::Complete => {
                let failed = self.report.tasks().find(|task| task.failed_for_good());
                match failed {
                    Some(task) => format!("harness why {}", task.id),
                    None if self.report.scope.leaves_work(self.report.ledger) => {
                        "harness run".to_owned()
                    }
                    None => "harness report".to_owned(),
                }
            }
            StopReason::Once if self.stop().words().is_some() => {
                let ready = |task: &&Task| {
                    matches!(Standing::of(self.report.ledger, task), Standing::Requires { .. })
                };
                let labels = self.report.tasks().find(ready).map(|task| task.requires.clone());
                NextStep::RunWithLabels(labels.unwrap_or_default()).to_string()
            }
            StopReason::Once => format!("harness run{tasks}"),
            StopReason::MaxSessions => {
                let head = self.report.ledger.head();
                let most = u64::try_from(head.session_config.max_sessions).unwrap_or(0).max(1);
                let more = head.session_count.saturating_add(most);
                format!("harness run --max-sessions {more}{tasks}")
            }
            StopReason::Budget => format!("{resume}{}", money::larger(run)),
            StopReason::MaxIterations => {
                let more = run.limits.max_iterations.saturating_mul(2).max(10);
                format!("{resume} --max-iterations {more}")
            }
            StopReason::Config => match (&self.stop().detail, &self.stop().task) {
                (StopDetail::NoCheck, Some(task)) => NextStep::SetCheck(task.clone()).to_string(),
                _ => resume,
            },
            StopReason::Cancelled
            | StopReason::Stalled
            | StopReason::Limit
            | StopReason::Gate
            | StopReason::EnvSetup
            | StopReason::Crashed => resume,
        }
    }
}

fn tasks(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 task is {what}"),
        many => format!("{many} tasks are {what}"),
    }
}

fn transcripts() -> String {
    format!("in {}; `harness log --agent` shows the last one", Home::TRANSCRIPTS)
}
