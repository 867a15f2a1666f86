//! Writes `state/handoff.json`, for agents that do not do it by themselves.

use std::{io, path::Path};

use harness_core::handoff::{self, Handoff, PATH};
use serde_json::Value;

use crate::home::folder::Folder;

/// The result of writing a handoff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The handoff that the next context will receive.
    pub handoff: Handoff,
    /// The invalid parts, which are left out.
    pub warnings: Vec<String>,
}

/// Replaces the handoff in `root` durably by the valid part of `given`. A value that is not an
/// object, or is empty, is refused with a message, and the file stays unchanged.
pub fn write(root: &Path, given: &Value) -> io::Result<Result<Written, String>> {
    let read = handoff::read(given.to_string().as_bytes());
    let handoff = match read.handoff {
        None => return Ok(Err(read.warnings.join("; "))),
        Some(handoff) if handoff.is_empty() => {
            return Ok(Err("an empty handoff is not written".to_owned()));
        }
        Some(handoff) => handoff,
    };
    let (folder, name) = PATH.split_once('/').unwrap_or((".", PATH));
    let text = serde_json::to_string_pretty(&handoff)?;
    Folder::open(root)?.make(folder)?.replace(name, format!("{text}\n").as_bytes())?;
    Ok(Ok(Written { handoff, warnings: read.warnings }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::{fs, os::unix::fs::symlink};

    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_valid_is_written_as_the_next_context_reads_it() {
        let root = tempfile::tempdir().unwrap();
        let given = json!({ "phase": "2", "completed": ["a"], "next_step": 3 });
        let written = write(root.path(), &given).unwrap().unwrap();
        assert_eq!(written.handoff.completed, ["a"]);
        assert!(written.warnings.iter().any(|w| w.contains("`next_step` is a number")));
        let bytes = fs::read(root.path().join(PATH)).unwrap();
        assert_eq!(handoff::read(&bytes).handoff, Some(written.handoff));
    }

    #[test]
    fn nothing_replaces_what_is_there() {
        let root = tempfile::tempdir().unwrap();
        for nothing in [json!({}), json!([]), json!({ "phase": " " })] {
            assert!(write(root.path(), &nothing).unwrap().is_err(), "{nothing}");
        }
        assert!(!root.path().join(PATH).exists());
    }

    #[test]
    fn no_link_is_followed() {
        let [root, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        symlink(other.path(), root.path().join("state")).unwrap();
        let given = json!({ "phase": "2" });
        assert!(write(root.path(), &given).is_err());
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
    }
}
