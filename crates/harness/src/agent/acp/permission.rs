//! The permissions of an agent that asks.
//!
//! No person is available, and an agent without permissions can do nothing. So it may work, one
//! action at a time. It may not write outside of the work tree, nor change the rules that it works
//! by.

use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

/// The actions that are allowed without a person.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Policy {
    /// Work in this tree is allowed.
    Within(PathBuf),
    /// Everything is allowed, because the user configured it.
    Anything,
}

/// The decision, with the answer for the agent.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Decision {
    Allowed(Value),
    Rejected(Value),
}

impl Policy {
    /// Chooses by kind among the options of a `session/request_permission`: the one that allows
    /// least, or that rejects least. `known` is the earlier information about the same call.
    pub(super) fn decide(&self, params: &Value, known: Option<&Claim>) -> Decision {
        if self.allows(&params["toolCall"], known)
            && let Some(answer) = select(params, &["allow_once", "allow_always"])
        {
            return Decision::Allowed(answer);
        }
        let answer = select(params, &["reject_once", "reject_always"]);
        Decision::Rejected(answer.unwrap_or_else(cancelled))
    }

    fn allows(&self, tool_call: &Value, known: Option<&Claim>) -> bool {
        let tree = match self {
            Policy::Anything => return true,
            Policy::Within(tree) => tree,
        };
        let is_known = known.is_some();
        let claim = Claim::read(tool_call).or(known);
        let stays_within = || claim.paths.iter().all(|path| is_within(tree, Path::new(path)));
        match claim.kind.as_deref() {
            Some("switch_mode") => false,
            // A call that does not name the files that it changes may change anything.
            Some("edit" | "delete" | "move") => !claim.paths.is_empty() && stays_within(),
            Some(_) => true,
            None => is_known && stays_within(),
        }
    }
}

/// The information about a tool call on which its permission depends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Claim {
    kind: Option<String>,
    /// All files that it declares to touch.
    paths: Vec<String>,
}

impl Claim {
    pub(super) fn read(tool_call: &Value) -> Claim {
        let listed = |key: &str| tool_call[key].as_array().into_iter().flatten();
        let places = listed("locations").chain(listed("content")).map(|place| &place["path"]);
        let input = tool_call["rawInput"].as_object().into_iter().flatten();
        let inputs = input.filter(|(key, _)| names_a_file(key)).map(|(_, value)| value);
        let paths = places.chain(inputs).filter_map(Value::as_str).map(str::to_owned);
        Claim { kind: tool_call["kind"].as_str().map(str::to_owned), paths: paths.collect() }
    }

    /// Fills missing values from the earlier information.
    pub(super) fn or(self, before: Option<&Claim>) -> Claim {
        let Some(before) = before else { return self };
        Claim {
            kind: self.kind.or_else(|| before.kind.clone()),
            paths: if self.paths.is_empty() { before.paths.clone() } else { self.paths },
        }
    }
}

/// Returns whether the key names a file. Agents use many spellings: `file_path`, `filePath`,
/// `abs_path`.
fn names_a_file(key: &str) -> bool {
    let key = key.replace('_', "").to_ascii_lowercase();
    ["path", "filepath", "filename", "abspath", "absolutepath", "notebookpath"]
        .contains(&key.as_str())
}

/// Returns the answer to a question that is no longer needed.
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

/// Returns whether the path is inside of the tree. Links are followed as far as the path exists.
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

/// Removes `.` and `..`; `None` if the path climbs above the root.
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
        after(policy, params, None)
    }

    fn after(policy: &Policy, params: &Value, known: Option<&Claim>) -> String {
        let (Decision::Allowed(answer) | Decision::Rejected(answer)) = policy.decide(params, known);
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

    #[test]
    fn what_does_not_say_what_it_changes_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let policy = Policy::Within(folder.path().to_owned());
        let options = json!([{"optionId": "yes", "kind": "allow_once"},
            {"optionId": "no", "kind": "reject_once"}]);
        let asks = |call: Value, known: Option<Value>| {
            let known = known.map(|known| Claim::read(&known));
            let params = json!({"toolCall": call, "options": options});
            after(&policy, &params, known.as_ref())
        };
        let inside = json!({"kind": "edit", "locations": [{"path": "file"}]});
        for (call, known, expected) in [
            (json!({"kind": "edit", "title": "Edit /etc/passwd"}), None, "no"),
            (json!({"kind": "edit", "rawInput": {"file_path": "/etc/passwd"}}), None, "no"),
            (json!({"kind": "edit", "rawInput": {"fileName": "file"}}), None, "yes"),
            (
                json!({"kind": "edit", "rawInput": {"abs_path": "/x"}, "locations": [{"path": "file"}]}),
                None,
                "no",
            ),
            (json!({"kind": "delete", "rawInput": {"command": "rm"}}), None, "no"),
            (json!({"title": "anything"}), None, "no"),
            (json!({"title": "the same"}), Some(inside.clone()), "yes"),
            (json!({"rawInput": {"path": "/x"}}), Some(inside), "no"),
            (json!({}), Some(json!({"kind": "edit"})), "no"),
            (json!({}), Some(json!({"kind": "execute"})), "yes"),
            (json!({}), Some(json!({"rawInput": {"path": "/x"}})), "no"),
            (json!({}), Some(json!({})), "yes"),
        ] {
            assert_eq!(asks(call.clone(), known.clone()), expected, "{call} {known:?}");
        }
    }
}
