//! One message to a person: what it is about, its text, and the command that answers it.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::Topic;
use crate::{
    Category, Run, RunId, Stats, Stop, Task, TaskId, Timestamp,
    quote::{head, one_line},
    run::StopReason,
    stop::StopDetail,
};

/// The longest text of a message, in bytes. A longer one does not fit on the screen of a phone.
const TEXT_BYTES: usize = 240;
/// A wait for a usage limit that is shorter is not worth a message.
const LIMIT_SECONDS: u64 = 3600;

/// A message to a person. It holds no code and no output of programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// The id. The same happening has the same id, however often it is sent.
    pub id: String,
    /// The event.
    pub event: Topic,
    /// `true` if a run ended with it. Such a message also belongs to [`Topic::Finished`].
    #[serde(default)]
    pub ends_run: bool,
    /// The time of the happening.
    pub at: Timestamp,
    /// The name of the project.
    pub project: String,
    /// A heading.
    pub title: String,
    /// One line.
    pub text: String,
    /// The command that answers it.
    pub command: String,
    /// The run that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_id: Option<RunId>,
    /// The task that it concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
}

/// Something that a person may want to know at once.
#[derive(Debug, Clone, Copy)]
pub enum Happening<'a> {
    /// A person is asked.
    Asked {
        /// The name of the question, as `harness reply` takes it.
        prompt: &'a str,
        /// The question.
        question: &'a str,
        /// The phase that the answer lets pass.
        phase: Option<&'a str>,
    },
    /// A run waits for the end of a usage limit.
    Waiting {
        /// The row that waits.
        run: &'a RunId,
        /// The task, if it is an attempt at one.
        task: Option<&'a TaskId>,
        /// The end of the wait.
        until: Timestamp,
    },
    /// An attempt at a task has failed.
    Failed {
        /// The task after it.
        task: &'a Task,
        /// The reason.
        category: Category,
    },
    /// A run has stopped.
    Stopped {
        /// Its row.
        run: &'a Run,
        /// The reason.
        stop: &'a Stop,
        /// The tasks of the ledger then.
        stats: Stats,
    },
    /// A person tries a channel.
    Tried,
}

impl Notice {
    /// Returns the message about a happening; `None` if it is not worth one. `project` is the name
    /// of the project for people.
    pub fn of(happening: Happening<'_>, project: &str, now: Timestamp) -> Option<Self> {
        let draft = Draft { project, now };
        match happening {
            Happening::Asked { prompt, question, phase } => {
                Some(draft.question(prompt, question, phase))
            }
            Happening::Waiting { run, task, until } => draft.wait(run, task, until),
            Happening::Failed { task, category } => draft.failure(task, category),
            Happening::Stopped { run, stop, stats } => draft.end(run, stop, stats),
            Happening::Tried => Some(Self {
                title: format!("{project}: a test"),
                text: "This channel works.".to_owned(),
                command: "harness status".to_owned(),
                ..draft.blank(Topic::Finished, &["test", &now.to_string()])
            }),
        }
    }

    /// Returns the id of the message about a question.
    pub fn id_of_question(prompt: &str, phase: Option<&str>) -> String {
        let event = if phase.is_some() { Topic::Gate } else { Topic::Question };
        id(event, &[prompt])
    }

    /// Returns whether the message belongs to one of these topics.
    pub fn concerns(&self, topics: &[Topic]) -> bool {
        topics.contains(&self.event) || (self.ends_run && topics.contains(&Topic::Finished))
    }
}

/// A message that is being written.
struct Draft<'a> {
    project: &'a str,
    now: Timestamp,
}

impl Draft<'_> {
    /// Returns a message without words. `subject` distinguishes it from others of its kind.
    fn blank(&self, event: Topic, subject: &[&str]) -> Notice {
        Notice {
            id: id(event, subject),
            event,
            ends_run: false,
            at: self.now,
            project: self.project.to_owned(),
            title: String::new(),
            text: String::new(),
            command: String::new(),
            run_id: None,
            task_id: None,
        }
    }

    fn question(&self, prompt: &str, question: &str, phase: Option<&str>) -> Notice {
        let project = self.project;
        match phase {
            None => Notice {
                title: format!("{project}: an agent asks"),
                text: short(question),
                command: format!("harness reply {prompt} ANSWER"),
                ..self.blank(Topic::Question, &[prompt])
            },
            Some(phase) => Notice {
                title: format!("{project}: approval wanted"),
                text: short(&format!("Phase {phase} is done. May the work go on?")),
                command: format!("harness reply {prompt} approve"),
                ..self.blank(Topic::Gate, &[prompt])
            },
        }
    }

    fn wait(&self, run: &RunId, task: Option<&TaskId>, until: Timestamp) -> Option<Notice> {
        let seconds = until.since(self.now);
        (seconds > LIMIT_SECONDS).then(|| Notice {
            title: format!("{}: waiting for a usage limit", self.project),
            text: format!("The agent is at its limit until {until} ({}).", span(seconds)),
            command: "harness kick".to_owned(),
            run_id: Some(run.clone()),
            task_id: task.cloned(),
            // Several workers wait for the end of the same limit.
            ..self.blank(Topic::Limit, &[&until.to_string()])
        })
    }

    fn failure(&self, task: &Task, category: Category) -> Option<Notice> {
        // A task that fails because of another one needs no message of its own.
        let is_worth_it = task.failed_for_good() && category != Category::Dependency;
        let epoch = task.epoch.unwrap_or_default().to_string();
        is_worth_it.then(|| Notice {
            title: format!("{}: {} failed for good", self.project, task.id),
            text: short(&failure(task, category)),
            command: format!("harness why {}", task.id),
            task_id: Some(task.id.clone()),
            ..self.blank(Topic::Failed, &[task.id.as_str(), &epoch])
        })
    }

    fn end(&self, run: &Run, stop: &Stop, stats: Stats) -> Option<Notice> {
        let (event, title) = ending(stop)?;
        let time = run.updated_at.to_string();
        Some(Notice {
            title: format!("{}: {title}", self.project),
            text: short(&outcome(run, stop, stats)),
            command: answer(run, stop),
            ends_run: true,
            run_id: Some(run.id.clone()),
            task_id: stop.task.clone(),
            ..self.blank(event, &[run.id.as_str(), &time])
        })
    }
}

fn id(event: Topic, subject: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in std::iter::once(&event.name()).chain(subject) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digits: String = hash.finalize()[..12].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("msg_{digits}")
}

/// Returns the event and the heading of a stop; `None` if a person asked for it.
fn ending(stop: &Stop) -> Option<(Topic, &'static str)> {
    match stop.reason {
        StopReason::Cancelled => None,
        StopReason::Complete if stop.is_alerted() => {
            Some((Topic::Finished, "finished, and something needs a look"))
        }
        StopReason::Complete | StopReason::Once => Some((Topic::Finished, "finished")),
        StopReason::Budget => Some((Topic::Budget, "the budget is spent")),
        StopReason::Limit => Some((Topic::Limit, "stopped at a usage limit")),
        StopReason::Gate => Some((Topic::Gate, "a gate is closed")),
        StopReason::Stalled => Some((Topic::Stalled, "no progress")),
        StopReason::MaxIterations => Some((Topic::Stalled, "no restarts are left")),
        StopReason::MaxSessions => Some((Topic::Stalled, "no sessions are left")),
        StopReason::EnvSetup => Some((Topic::Failed, "the environment is not ready")),
        StopReason::Config => Some((Topic::Failed, "a person must change something")),
        StopReason::Crashed => Some((Topic::Failed, "the run failed")),
    }
}

fn outcome(run: &Run, stop: &Stop, stats: Stats) -> String {
    let mut parts = Vec::new();
    match &stop.detail {
        StopDetail::Gate { phase, .. } => parts.push(format!("The gate of {phase} did not pass.")),
        StopDetail::NoCheck => parts.push("A task has no check.".to_owned()),
        StopDetail::Dirty(_) => parts.push("The work tree has uncommitted changes.".to_owned()),
        StopDetail::Client(worker) => parts.push(format!("A task is claimed by {worker}.")),
        StopDetail::Words(words) if stop.reason == StopReason::Budget => {
            parts.push(format!("{words}."));
        }
        // These may quote what a program printed.
        StopDetail::Words(_)
        | StopDetail::OutOfTime(_)
        | StopDetail::Nothing
        | StopDetail::Alerted
        | StopDetail::Unattended => {}
    }
    if run.objective.is_none() {
        let Stats { completed, total, failed, .. } = stats;
        let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
        parts.push(format!("{completed} of {total} tasks done{failed}."));
    }
    if let Some(cost) = run.usage.cost_usd {
        parts.push(format!("{cost:.2} USD."));
    }
    if parts.is_empty() {
        parts.push("The objective is reached.".to_owned());
        if stop.reason != StopReason::Complete {
            parts = vec![format!("It stopped: {}.", stop.reason)];
        }
    }
    parts.join(" ")
}

fn answer(run: &Run, stop: &Stop) -> String {
    let resume = |flag: &str| format!("harness run --resume --run-id {}{flag}", run.id);
    match stop.reason {
        StopReason::Complete | StopReason::Once | StopReason::Cancelled => {
            "harness report".to_owned()
        }
        StopReason::Budget if run.limits.max_cost_usd.is_some() => resume(" --max-cost AMOUNT"),
        StopReason::Budget if run.limits.max_tokens.is_some() => resume(" --max-tokens COUNT"),
        StopReason::MaxIterations => resume(" --max-iterations COUNT"),
        StopReason::MaxSessions => resume(" --max-sessions COUNT"),
        StopReason::Budget | StopReason::Limit | StopReason::Stalled => resume(""),
        StopReason::Gate | StopReason::EnvSetup | StopReason::Config | StopReason::Crashed => {
            "harness status".to_owned()
        }
    }
}

fn failure(task: &Task, category: Category) -> String {
    let (title, attempts) = (&task.title, task.attempts);
    let unit = if attempts == 1 { "attempt" } else { "attempts" };
    format!("{title} ({category}, after {attempts} {unit})")
}

/// Returns a length of time as people say it.
fn span(seconds: u64) -> String {
    match (seconds / 3600, seconds % 3600 / 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// Returns one short line without blocks of code and without invisible characters.
fn short(text: &str) -> String {
    let without_code = text.split("```").step_by(2).collect::<Vec<_>>().join(" … ");
    head(&one_line(&without_code), TEXT_BYTES)
}

/// Returns an address of which only the scheme and the host are shown, because the rest of it may
/// be a secret.
pub fn masked(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return "…".to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let whole = format!("{scheme}://{host}");
    if whole.len() == url.trim_end_matches('/').len() { whole } else { format!("{whole}/…") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Epoch,
        task::{TaskFailure, TaskState},
    };

    fn now() -> Timestamp {
        Timestamp::from_seconds(1_751_364_000)
    }

    fn notice(happening: Happening<'_>) -> Option<Notice> {
        Notice::of(happening, "shop", now())
    }

    fn run() -> Run {
        let mut run = Run::queued(RunId::of_bits(7), now());
        run.usage.cost_usd = Some(3.204);
        run.limits.max_cost_usd = Some(3.0);
        run
    }

    #[test]
    fn each_stop_has_one_event_and_one_answer() {
        use StopReason as R;
        let resume = format!("harness run --resume --run-id {}", RunId::of_bits(7));
        let raise = |flag: &str| format!("{resume} {flag}");
        let stats = Stats { total: 5, completed: 3, failed: 1, ..Stats::default() };
        for (reason, event, command) in [
            (R::Complete, Some(Topic::Finished), "harness report".to_owned()),
            (R::Once, Some(Topic::Finished), "harness report".to_owned()),
            (R::Budget, Some(Topic::Budget), raise("--max-cost AMOUNT")),
            (R::Limit, Some(Topic::Limit), resume.clone()),
            (R::Stalled, Some(Topic::Stalled), resume.clone()),
            (R::MaxIterations, Some(Topic::Stalled), raise("--max-iterations COUNT")),
            (R::MaxSessions, Some(Topic::Stalled), raise("--max-sessions COUNT")),
            (R::Gate, Some(Topic::Gate), "harness status".to_owned()),
            (R::EnvSetup, Some(Topic::Failed), "harness status".to_owned()),
            (R::Config, Some(Topic::Failed), "harness status".to_owned()),
            (R::Crashed, Some(Topic::Failed), "harness status".to_owned()),
            (R::Cancelled, None, String::new()),
        ] {
            let stop = Stop::with_words(reason, "thread panicked: sk-secret in main.rs");
            let made = notice(Happening::Stopped { run: &run(), stop: &stop, stats });
            assert_eq!(made.as_ref().map(|made| made.event), event, "{reason}");
            let Some(made) = made else { continue };
            assert_eq!(made.command, command, "{reason}");
            assert!(made.text.ends_with("3 of 5 tasks done, 1 failed. 3.20 USD."), "{made:?}");
            let quotes = made.text.contains("main.rs");
            assert_eq!(
                quotes,
                reason == R::Budget,
                "only the words of a budget are ours: {made:?}"
            );
            assert!(made.concerns(&[Topic::Finished]) && made.concerns(&[made.event]));
            assert!(!made.concerns(&[Topic::Question]));
        }
    }

    #[test]
    fn a_question_has_its_first_words_and_the_command_that_answers() {
        let question = "Which one?\n```rust\nfn main() {}\n```\nA or B\u{1b}[2K";
        let asked = Happening::Asked { prompt: "prompt-0-1f", question, phase: None };
        let made = notice(asked).unwrap();
        assert_eq!(made.event, Topic::Question);
        assert_eq!(made.text, "Which one? … A or B[2K");
        assert_eq!(made.command, "harness reply prompt-0-1f ANSWER");
        assert_eq!(made.id, Notice::id_of_question("prompt-0-1f", None));
        assert_eq!(notice(asked).unwrap().id, made.id, "the id is stable");
        let gate = Happening::Asked { prompt: "prompt-0-1f", question, phase: Some("Build") };
        let gate = notice(gate).unwrap();
        assert_eq!(
            (gate.event, gate.command.as_str()),
            (Topic::Gate, "harness reply prompt-0-1f approve")
        );
        assert_ne!(gate.id, made.id);
        let long = "x".repeat(5000);
        let long = Happening::Asked { prompt: "p", question: &long, phase: None };
        assert!(notice(long).unwrap().text.len() <= TEXT_BYTES);
    }

    #[test]
    fn only_a_long_wait_is_worth_a_message() {
        let run = RunId::of_bits(1);
        let wait = |seconds| {
            notice(Happening::Waiting { run: &run, task: None, until: now().plus(seconds) })
        };
        assert_eq!(wait(LIMIT_SECONDS), None);
        let made = wait(LIMIT_SECONDS * 5 + 600).unwrap();
        assert_eq!((made.event, made.command.as_str()), (Topic::Limit, "harness kick"));
        assert_eq!(made.text, "The agent is at its limit until 2025-07-01T15:10:00Z (5 h 10 min).");
        assert_ne!(wait(7200).unwrap().id, wait(7201).unwrap().id);
    }

    #[test]
    fn only_a_task_that_failed_for_good_by_itself_is_worth_a_message() {
        let mut task = Task::new(TaskId::numbered(3), "Write the parser".to_owned());
        task.epoch = Some(Epoch(4));
        let made = |task: &Task, category| notice(Happening::Failed { task, category });
        assert_eq!(made(&task, Category::TestFail), None, "it is pending");
        task.state = TaskState::Failed(TaskFailure::default());
        task.attempts = 1;
        assert_eq!(made(&task, Category::TestFail), None, "it is tried again");
        task.attempts = task.max_attempts;
        let sent = made(&task, Category::TestFail).unwrap();
        assert_eq!(
            sent.text,
            format!("Write the parser (TEST_FAIL, after {} attempts)", task.attempts)
        );
        assert_eq!(sent.command, "harness why task-003");
        assert_eq!(made(&task, Category::Dependency), None);
    }

    #[test]
    fn of_an_address_only_the_host_is_shown() {
        for (url, shown) in [
            ("https://hooks.slack.com/services/T0/B0/x", "https://hooks.slack.com/…"),
            ("https://user:pass@example.com:8443/", "https://example.com:8443/…"),
            ("https://ntfy.sh", "https://ntfy.sh"),
            ("http://127.0.0.1:9/?token=1", "http://127.0.0.1:9/…"),
            ("not a url", "…"),
        ] {
            assert_eq!(masked(url), shown);
        }
    }
}
