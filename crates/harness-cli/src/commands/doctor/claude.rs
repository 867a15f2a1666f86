//! Checks Claude Code without asking its model and without reading a secret.

use std::path::PathBuf;

use super::finding::Finding;
use crate::{config::Agent, environment::Environment};

/// Variables that sign it in. That one is set does not show whether it is valid.
const KEYS: [&str; 5] = [
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
];

pub(super) fn look(env: &Environment, name: &str, table: &Agent, version: &str) -> Finding {
    if table.yolo && rustix::process::geteuid().is_root() {
        return Finding::fail(
            "agent",
            format!("{name}: Claude Code refuses to bypass permissions (`yolo = true`) as root"),
            format!("run harness as another user, or remove `yolo` from [agents.{name}]"),
        );
    }
    match signed_in(env) {
        Some(how) => Finding::ok("agent", format!("{name}: {version}, signed in ({how})")),
        None => Finding::warn(
            "agent",
            format!("{name}: {version}, probably not signed in"),
            "run `claude` and sign in, or set ANTHROPIC_API_KEY",
        ),
    }
}

/// Returns the way in which it is signed in, if there is one.
fn signed_in(env: &Environment) -> Option<String> {
    if let Some(key) = KEYS.into_iter().find(|key| env.get(key).is_some()) {
        return Some(key.to_owned());
    }
    let own = env.path("CLAUDE_CONFIG_DIR").map(PathBuf::from);
    let folder = own.or_else(|| Some(env.path("HOME")?.join(".claude")))?;
    // On systems with a key chain, the credentials are there, and only Claude Code may read them.
    let is_there = |name: &str| folder.join(name).is_file();
    if is_there(".credentials.json") {
        return Some("its own credentials".to_owned());
    }
    let settings = std::fs::read_to_string(folder.join("settings.json")).ok()?;
    settings.contains("\"apiKeyHelper\"").then(|| "apiKeyHelper".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_or_a_file_of_its_own_is_a_way_in() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().to_str().unwrap();
        let env = |more: &[(&str, &str)]| {
            let all: Vec<_> = [("HOME", path)].into_iter().chain(more.iter().copied()).collect();
            Environment::of(&all)
        };
        assert_eq!(signed_in(&env(&[])), None);
        let key = env(&[("ANTHROPIC_API_KEY", "x")]);
        assert_eq!(signed_in(&key).as_deref(), Some("ANTHROPIC_API_KEY"));
        std::fs::create_dir(home.path().join(".claude")).unwrap();
        let write = |name: &str, text: &str| {
            std::fs::write(home.path().join(".claude").join(name), text).unwrap();
        };
        write("settings.json", r#"{"apiKeyHelper":"/bin/key"}"#);
        assert_eq!(signed_in(&env(&[])).as_deref(), Some("apiKeyHelper"));
        write(".credentials.json", "{}");
        assert_eq!(signed_in(&env(&[])).as_deref(), Some("its own credentials"));
        let elsewhere = env(&[("CLAUDE_CONFIG_DIR", "/nowhere")]);
        assert_eq!(signed_in(&elsewhere), None);
    }
}
