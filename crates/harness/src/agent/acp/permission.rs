//! What an agent that asks is allowed.
//!
//! Nobody is there to be asked, and an agent that may do nothing does nothing. So it may work, one
//! act at a time; it may not write outside of the work tree, nor change the rules that it works by.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

/// What is allowed without a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Policy {
    /// Work in this tree.
    Within(PathBuf),
    /// Anything: the user wrote so.
    Anything,
}

/// What was decided, and the answer that says so.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    Allowed(Value),
    Rejected(Value),
}

impl Policy {
    /// Picks by kind among the options of a `session/request_permission`: what allows least, or
    /// what rejects least.
    pub(super) fn decide(&self, params: &Value) -> Decision {
        if self.allows(&params["toolCall"])
            && let Some(answer) = select(params, &["allow_once", "allow_always"])
        {
            return Decision::Allowed(answer);
        }
        let answer = select(params, &["reject_once", "reject_always"]);
        Decision::Rejected(answer.unwrap_or_else(cancelled))
    }

    fn allows(&self, tool_call: &Value) -> bool {
        let tree = match self {
            Policy::Anything => return true,
            Policy::Within(tree) => tree,
        };
        match tool_call["kind"].as_str() {
            Some("switch_mode") => false,
            Some("edit" | "delete" | "move") => {
                paths(tool_call).all(|path| is_within(tree, Path::new(path)))
            }
            _ => true,
        }
    }
}

/// The answer to a question that nobody answers any more.
pub(super) fn cancelled() -> Value {
    json!({ "outcome": { "outcome": "cancelled" } })
}

fn select(params: &Value, kinds: &[&str]) -> Option<Value> {
    let options = params["options"].as_array()?;
    let of_kind = |kind: &str| options.iter().find(|option| option["kind"] == kind);
    let option = kinds.iter().find_map(|kind| of_kind(kind))?;
    let id = option["optionId"].as_str()?;
    Some(json!({ "outcome": { "outcome": "selected", "optionId": id } }))
}

/// All files that a call says it touches.
fn paths(tool_call: &Value) -> impl Iterator<Item = &str> {
    let listed = |key: &str| tool_call[key].as_array().into_iter().flatten();
    listed("locations").chain(listed("content")).filter_map(|place| place["path"].as_str())
}

/// Links are followed as far as there is something.
fn is_within(tree: &Path, path: &Path) -> bool {
    let (Ok(tree), Some(path)) = (tree.canonicalize(), plain(&tree.join(path))) else {
        return false;
    };
    let there = path.ancestors().find_map(|part| {
        let real = part.canonicalize().ok()?;
        Some(real.join(path.strip_prefix(part).ok()?))
    });
    there.is_some_and(|there| there.starts_with(tree))
}

/// Without `.` and `..`; `None` if it climbs above the root.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !plain.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) | Component::Normal(_) => {
                plain.push(component);
            }
        }
    }
    Some(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(kind: &str, path: &str) -> Value {
        json!({
            "toolCall": {"kind": kind, "locations": [{"path": path}]},
            "options": [
                {"optionId": "always", "kind": "allow_always"},
                {"optionId": "once", "kind": "allow_once"},
                {"optionId": "no", "kind": "reject_once"},
            ],
        })
    }

    fn chosen(policy: &Policy, params: &Value) -> String {
        let (Decision::Allowed(answer) | Decision::Rejected(answer)) = policy.decide(params);
        let outcome = &answer["outcome"];
        outcome["optionId"].as_str().or(outcome["outcome"].as_str()).unwrap().to_owned()
    }

    #[test]
    fn work_in_the_tree_is_allowed_once() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        std::fs::create_dir(&tree).unwrap();
        std::os::unix::fs::symlink(folder.path(), tree.join("out")).unwrap();
        let policy = Policy::Within(tree.clone());
        let inside = tree.join("new/file").to_str().unwrap().to_owned();
        for (kind, path, expected) in [
            ("edit", inside.as_str(), "once"),
            ("edit", "file", "once"),
            ("edit", "/etc/passwd", "no"),
            ("delete", "../other", "no"),
            ("move", "a/../../../x", "no"),
            ("edit", "out/file", "no"),
            ("execute", "/etc/passwd", "once"),
            ("read", "/etc/passwd", "once"),
            ("of_tomorrow", "/etc/passwd", "once"),
            ("switch_mode", "", "no"),
        ] {
            assert_eq!(chosen(&policy, &ask(kind, path)), expected, "{kind} {path}");
            assert_eq!(chosen(&Policy::Anything, &ask(kind, path)), "once");
        }
        let diff = json!({"toolCall": {"kind": "edit", "content": [{"type": "diff", "path": "/x"}]},
            "options": [{"optionId": "always", "kind": "allow_always"}]});
        assert_eq!(chosen(&policy, &diff), "cancelled");
        assert_eq!(chosen(&Policy::Anything, &diff), "always");
        assert_eq!(chosen(&policy, &json!(null)), "cancelled");
    }
}
