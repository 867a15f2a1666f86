//! The entry of our MCP server in the settings files of agents.

use serde_json::{Value, json};

use super::json_text::{JsonText, Left, Step::Key};

const NAME: &str = "harness";

/// Adds `{"mcpServers": {"harness": {"command": …, "args": ["mcp"]}}}`, the form of Claude Code.
pub(super) fn with(file: Option<JsonText>, program: &str) -> Result<JsonText, String> {
    let entry = json!({ "command": program, "args": ["mcp"] });
    let Some(mut file) = file else {
        let made = json!({ "mcpServers": { NAME: entry } });
        return JsonText::made(&made).map_err(|why| why.to_string());
    };
    let path = [Key("mcpServers"), Key(NAME)];
    check(&file)?;
    match (file.get(&path[..1]), file.get(&path)) {
        (_, Some(there)) if !is_ours(&there) => return Err(taken(&there["command"])),
        (_, Some(there)) if there["command"] != program => {
            file.replace(&[path[0], path[1], Key("command")], program);
        }
        (_, Some(_)) => {}
        (Some(_), None) => file.insert(&path[..1], NAME, &entry),
        (None, None) => file.insert(&[], "mcpServers", &json!({ NAME: entry })),
    }
    Ok(file)
}

/// Returns the file without our server; `None` if nothing else is in it.
pub(super) fn without(mut file: JsonText) -> Result<Option<JsonText>, String> {
    let path = [Key("mcpServers"), Key(NAME)];
    check(&file)?;
    let is_there = file.get(&path).is_some_and(|there| is_ours(&there));
    if is_there && file.remove(&path) == Left::Nothing {
        return Ok(None);
    }
    Ok(Some(file))
}

/// Returns whether a server of our name is called like ours, whatever the name of the program.
pub(super) fn is_ours(entry: &Value) -> bool {
    entry["command"].is_string() && entry["args"] == json!(["mcp"])
}

pub(super) fn taken(command: &Value) -> String {
    format!("a server named {NAME} already exists, and it is not `harness mcp` ({command})")
}

fn check(file: &JsonText) -> Result<(), String> {
    let whole = file.get(&[]).unwrap_or_default();
    match whole.as_object().map(|fields| fields.get("mcpServers")) {
        None => Err("it is not an object".to_owned()),
        Some(Some(servers)) if !servers.is_object() => {
            Err("mcpServers is not an object".to_owned())
        }
        Some(_) => Ok(()),
    }
}
