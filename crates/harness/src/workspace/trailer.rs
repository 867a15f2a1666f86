//! The trailer by which a landed commit names its task and the epoch of the attempt.

use harness_core::{CommitId, Epoch, TaskId, Timestamp, command::LandedResult};

use super::{
    WorkspaceError,
    git::{Git, failed},
    object::commit_id,
    path::records,
};

/// The key of the trailer, with the separator.
pub(super) const TASK_TRAILER: &str = "Harness-Task: ";

/// Returns the line that every landed commit of an attempt has in its message.
pub fn task_trailer(task: &TaskId, epoch: Epoch) -> String {
    format!("{TASK_TRAILER}{task}.{epoch}")
}

/// Returns the message with the trailer of this attempt, exactly once. The trailer of an earlier
/// attempt of the same task is replaced. A message that needs no change is returned as it is, so that
/// a commit with it need not be made again.
pub fn with_trailer(message: &str, task: &TaskId, epoch: Epoch) -> String {
    let trailer = task_trailer(task, epoch);
    let of_task = |line: &&str| is_of_task(line.trim_end(), task);
    let present: Vec<_> = message.lines().filter(of_task).collect();
    if matches!(present[..], [line] if line.trim_end() == trailer) {
        return message.to_owned();
    }
    let kept: Vec<_> = message.lines().filter(|line| !of_task(line)).collect();
    let text = kept.join("\n");
    let text = text.trim_end();
    let separator = if ends_with_trailers(text) { "\n" } else { "\n\n" };
    format!("{text}{separator}{trailer}\n")
}

/// Returns whether the message has the trailer of this attempt.
pub(super) fn has_trailer(message: &str, task: &TaskId, epoch: Epoch) -> bool {
    let trailer = task_trailer(task, epoch);
    message.lines().any(|line| line.trim_end() == trailer)
}

/// Returns whether a line is the trailer of any attempt of the task.
pub(super) fn is_of_task(line: &str, task: &TaskId) -> bool {
    let value = line.strip_prefix(TASK_TRAILER);
    value.and_then(|value| value.rsplit_once('.')).is_some_and(|(of, epoch)| {
        of == task.as_str() && !epoch.is_empty() && epoch.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Returns the result that a commit with this message is part of. Only the last such trailer counts,
/// because that is the one that a landing has put there: an agent can write others above it.
pub fn result_of(commit: &CommitId, message: &str) -> Option<LandedResult> {
    let (_, last) = message.trim_end().rsplit_once("\n\n")?;
    let trailer = last.lines().rev().find_map(|line| line.trim_end().strip_prefix(TASK_TRAILER));
    let (task, epoch) = trailer?.rsplit_once('.')?;
    let (task, epoch) = (TaskId::parse(task).ok()?, Epoch(epoch.parse().ok()?));
    Some(LandedResult { task, epoch, commit: commit.clone() })
}

/// Returns the results in the history of a commit that were made since then, the newest first.
pub(super) fn results_below(
    git: &Git,
    tip: &CommitId,
    since: Option<Timestamp>,
) -> Result<Vec<LandedResult>, WorkspaceError> {
    let call = git.read("log").args(["-z", "--topo-order", "--format=%H%n%B"]);
    let call = call.args(since.map(|since| format!("--since={}", since.seconds())));
    let call = call.args([&format!("--grep=^{TASK_TRAILER}"), tip.as_str()]);
    let mut found = Vec::new();
    for record in records(&call.output()?) {
        let text = String::from_utf8_lossy(record);
        let Some((commit, message)) = text.split_once('\n') else {
            return Err(failed("log", b"unexpected output"));
        };
        found.extend(result_of(&commit_id(commit)?, message));
    }
    Ok(found)
}

/// Returns whether the last paragraph, which is not the subject, has only trailers.
fn ends_with_trailers(text: &str) -> bool {
    let Some((_, last)) = text.rsplit_once("\n\n") else { return false };
    last.lines().all(|line| {
        line.split_once(": ").is_some_and(|(key, _)| {
            !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trailer_is_there_once_and_stays_with_other_trailers() {
        let task = TaskId::parse("task-1.5").unwrap();
        let cases = [
            ("subject", "subject\n\nHarness-Task: task-1.5.3\n"),
            ("subject: more\n", "subject: more\n\nHarness-Task: task-1.5.3\n"),
            ("s\n\nbody\n", "s\n\nbody\n\nHarness-Task: task-1.5.3\n"),
            (
                "s\n\nSigned-off-by: A <a@b>\n",
                "s\n\nSigned-off-by: A <a@b>\nHarness-Task: task-1.5.3\n",
            ),
            ("s\n\nHarness-Task: task-1.5.2\n", "s\n\nHarness-Task: task-1.5.3\n"),
            (
                "s\n\nHarness-Task: task-1.2\n",
                "s\n\nHarness-Task: task-1.2\nHarness-Task: task-1.5.3\n",
            ),
            ("s\n\nHarness-Task: task-1.5.3", "s\n\nHarness-Task: task-1.5.3"),
        ];
        for (message, expected) in cases {
            let with = with_trailer(message, &task, Epoch(3));
            assert_eq!(with, expected);
            assert_eq!(with_trailer(&with, &task, Epoch(3)), with);
            assert!(has_trailer(&with, &task, Epoch(3)));
        }
    }
}
