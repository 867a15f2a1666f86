//! The label in the command line of a guard: the root and the attempt for which its tree was
//! started. Every process can read it, and nothing below the guard can change it.

use std::ffi::OsStr;

use harness_core::variables;

use crate::{
    home::root_hash,
    process::{ROOT_VARIABLE, guard},
};

/// The placeholder for a missing root or attempt.
const NONE: &str = "-";

/// The root, and the attempt at a task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Label {
    /// The [`root_hash`] of the state root.
    pub(crate) root: Option<String>,
    /// The attempt as `<task>.<epoch>`.
    pub(crate) attempt: Option<String>,
}

impl Label {
    /// Reads the label from the environment of the process to be started.
    pub(in crate::process) fn of<T: AsRef<OsStr>>(
        environment: impl Iterator<Item = (T, T)>,
    ) -> Label {
        let (mut root, mut task, mut epoch) = (None, None, None);
        for (name, value) in environment {
            let (name, value) = (name.as_ref(), value.as_ref());
            let place = match name.to_str() {
                Some(ROOT_VARIABLE) => &mut root,
                Some(variables::TASK) => &mut task,
                Some(variables::EPOCH) => &mut epoch,
                _ => continue,
            };
            *place = Some(value.to_owned());
        }
        let attempt = task.zip(epoch).and_then(|(task, epoch)| {
            let (task, epoch) = (task.to_str()?, epoch.to_str()?);
            // The attempt must be one word of the command line.
            let is_word = !task.is_empty() && !task.contains(|c: char| c.is_whitespace());
            is_word.then(|| format!("{task}.{epoch}"))
        });
        let root = root.filter(|root| !root.is_empty());
        Label { root: root.map(|root| root_hash(root.as_ref())), attempt }
    }

    /// Returns a new value of `HARNESS_JOB`.
    pub(in crate::process) fn new_job(&self) -> String {
        let unique = uuid::Uuid::now_v7();
        match &self.root {
            Some(root) => format!("{root}.{unique}"),
            None => unique.to_string(),
        }
    }

    pub(in crate::process) fn arguments(&self) -> [&str; 3] {
        [
            guard::ARGUMENT,
            self.root.as_deref().unwrap_or(NONE),
            self.attempt.as_deref().unwrap_or(NONE),
        ]
    }

    /// Returns the label of the process with this `/proc/PID/cmdline`, if it is a guard.
    pub(in crate::process) fn read(command_line: &[u8]) -> Option<Label> {
        let words = command_line.split(|byte| *byte == 0).map(|word| str::from_utf8(word).ok());
        let words: Vec<&str> = words.take(4).collect::<Option<_>>()?;
        let [guard::NAME, guard::ARGUMENT, root, attempt] = words[..] else { return None };
        let part = |word: &str| (word != NONE).then(|| word.to_owned());
        Some(Label { root: part(root), attempt: part(attempt) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_read_as_it_was_written() {
        let environment = [
            ("HARNESS_STATE_ROOT", "/elsewhere"),
            ("HARNESS_TASK_ID", "task-001"),
            ("HARNESS_STATE_ROOT", "/home/me/project"),
            ("HARNESS_EPOCH", "3"),
        ];
        let label = Label::of(environment.into_iter());
        assert_eq!(label.root.as_deref(), Some("225df3094012a213"), "the last one counts");
        assert_eq!(label.attempt.as_deref(), Some("task-001.3"));
        assert!(label.new_job().starts_with("225df3094012a213."));
        for label in [label, Label::default()] {
            let line = [&[guard::NAME], &label.arguments()[..]].concat().join("\0") + "\0";
            assert_eq!(Label::read(line.as_bytes()), Some(label));
        }
        for other in ["", "sh\0-c\0x\0", "harness-guard\0run\0-\0-\0", "harness-guard\0__guard\0"] {
            assert_eq!(Label::read(other.as_bytes()), None, "{other:?}");
        }
    }
}
