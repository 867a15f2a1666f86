//! The plugin for Claude Code and Codex in `plugin/`, made from what `harness install` writes, so
//! that the two cannot differ.

use std::{fs, path::Path, process::Command};

use serde_json::{Value, json};

use crate::run::root;

const VERSION: &str = env!("CARGO_PKG_VERSION");
const LICENSE: &str = env!("CARGO_PKG_LICENSE");
const ABOUT: &str = "Keeps coding agents working until the work is verifiably done";

/// Returns the path and the text of each file of the plugin.
pub(crate) fn files(harness: &Path) -> Result<Vec<(String, String)>, String> {
    // The files of a user, in a home that only exists for this.
    let home = root().join("target/plugin-source");
    _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).map_err(|why| format!("{}: {why}", home.display()))?;
    for agent in ["claude", "codex"] {
        install(harness, &home, agent)?;
    }
    let read = |name: &str| {
        fs::read_to_string(home.join(name)).map_err(|why| format!("{name} was not written: {why}"))
    };
    let parsed = |name: &str| {
        serde_json::from_str::<Value>(&read(name)?).map_err(|why| format!("{name}: {why}"))
    };
    let hooks = |name: &str| Ok::<_, String>(json!({ "hooks": parsed(name)?["hooks"] }));
    let servers = json!({ "mcpServers": parsed(".claude.json")?["mcpServers"] });
    let config: toml::Table = read(".codex/config.toml")?.parse().map_err(of_toml)?;
    let of_codex = serde_json::to_value(&config["mcp_servers"]).map_err(|why| why.to_string())?;
    let documents = [
        (".claude-plugin/marketplace.json", marketplace()),
        ("plugin/.claude-plugin/plugin.json", manifest(json!({}))),
        ("plugin/hooks/hooks.json", hooks(".claude/settings.json")?),
        ("plugin/.mcp.json", servers),
        (
            "plugin/.codex-plugin/plugin.json",
            manifest(json!({
                "skills": "./codex/skills",
                "hooks": "./codex/hooks.json",
                "mcpServers": "./codex/mcp.json",
            })),
        ),
        ("plugin/codex/hooks.json", hooks(".codex/hooks.json")?),
        ("plugin/codex/mcp.json", json!({ "mcpServers": of_codex })),
    ];
    let mut files = vec![
        ("plugin/commands/harness.md".to_owned(), read(".claude/commands/harness.md")?),
        (
            "plugin/codex/skills/harness/SKILL.md".to_owned(),
            read(".agents/skills/harness/SKILL.md")?,
        ),
    ];
    for (name, document) in documents {
        let text = serde_json::to_string_pretty(&document).map_err(|why| why.to_string())?;
        files.push((name.to_owned(), text + "\n"));
    }
    Ok(files)
}

fn of_toml(why: toml::de::Error) -> String {
    format!(".codex/config.toml: {why}")
}

fn install(harness: &Path, home: &Path, agent: &str) -> Result<(), String> {
    let mut command = Command::new(harness);
    command.args(["install", agent, "--user", "--program", "harness"]).current_dir(home);
    for variable in ["CLAUDE_CONFIG_DIR", "CODEX_HOME"] {
        command.env_remove(variable);
    }
    let output = command.env("HOME", home).output().map_err(|why| why.to_string())?;
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// Returns the list of plugins of this repository. Both agents read it.
fn marketplace() -> Value {
    json!({
        "name": "harness",
        "owner": { "name": "The harness authors" },
        "metadata": { "description": ABOUT },
        "plugins": [{
            "name": "harness",
            "source": "./plugin",
            "description": "Hooks, the command /harness and the MCP server of harness",
        }],
    })
}

fn manifest(more: Value) -> Value {
    let mut manifest = json!({
        "name": "harness",
        "version": VERSION,
        "description": ABOUT,
        "author": { "name": "The harness authors" },
        "license": LICENSE,
        "keywords": ["tasks", "checks", "autonomy"],
    });
    if let (Value::Object(manifest), Value::Object(more)) = (&mut manifest, more) {
        manifest.extend(more);
    }
    manifest
}
