//! The program that gives an agent harness's own tools, by the Model Context Protocol.
//!
//! The binary names itself (`harness mcp`). A program that embeds the library may have none, and
//! its agents then use the command line or nothing.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::process::is_secret;

/// The name of the server for agents. For Claude Code a tool is `mcp__harness__task_checkpoint`.
const NAME: &str = "harness";
/// A person may take a day to answer. An agent's own limit on a tool would end the wait earlier.
const TOOL_SECONDS: u64 = 24 * 3600;

/// The command that starts the server. Each agent starts its own, and ends it by closing its
/// standard input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolServer {
    program: PathBuf,
    args: Vec<String>,
}

impl ToolServer {
    /// Creates the value. `program` must be absolute, because the agent would look for it in its
    /// own directory.
    pub fn new<T: Into<String>>(
        program: impl Into<PathBuf>,
        args: impl IntoIterator<Item = T>,
    ) -> ToolServer {
        ToolServer { program: program.into(), args: args.into_iter().map(Into::into).collect() }
    }

    /// Returns the value of `--mcp-config` for Claude Code.
    pub(super) fn for_claude(&self, environment: &[(OsString, OsString)]) -> String {
        let server = json!({
            "type": "stdio",
            "command": shown(&self.program),
            "args": self.args,
            "env": variables(environment),
        });
        json!({ "mcpServers": { NAME: server } }).to_string()
    }

    /// Returns arguments for Codex. It gives servers a few variables of its own choice and those
    /// that are named here. It asks before it uses a tool unless it is configured not to.
    pub(super) fn for_codex(&self, environment: &[(OsString, OsString)]) -> Vec<OsString> {
        let args: Vec<_> = self.args.iter().map(|arg| toml_text(arg)).collect();
        let env: Vec<_> = variables(environment)
            .iter()
            .map(|(name, value)| format!("{name}={}", toml_text(value)))
            .collect();
        let settings = [
            ("command", toml_text(&shown(&self.program))),
            ("args", format!("[{}]", args.join(","))),
            ("env", format!("{{{}}}", env.join(","))),
            ("tool_timeout_sec", TOOL_SECONDS.to_string()),
            ("default_tools_approval_mode", toml_text("approve")),
        ];
        let told = settings.map(|(key, value)| format!("mcp_servers.{NAME}.{key}={value}"));
        told.into_iter().flat_map(|setting| ["-c".into(), setting.into()]).collect()
    }

    /// Returns an entry of `mcpServers` in ACP.
    pub(super) fn for_acp(&self, environment: &[(OsString, OsString)]) -> Value {
        let env: Vec<Value> = variables(environment)
            .iter()
            .map(|(name, value)| json!({ "name": name, "value": value }))
            .collect();
        json!({ "name": NAME, "command": shown(&self.program), "args": self.args, "env": env })
    }
}

/// Returns the variables that the server needs to find its ledger, task and worker, the host, and
/// the user's settings. They stand on command lines, so no secret may be among them.
fn variables(environment: &[(OsString, OsString)]) -> BTreeMap<&str, &str> {
    let needed = |name: &str| {
        name.starts_with("HARNESS_") || name.starts_with("XDG_") || ["HOME", "PATH"].contains(&name)
    };
    let texts =
        environment.iter().filter_map(|(name, value)| Some((name.to_str()?, value.to_str()?)));
    texts.filter(|(name, _)| needed(name) && !is_secret(name)).collect()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Returns a basic string of TOML. It has the escapes of JSON except `\/`, which is never written.
fn toml_text(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment() -> Vec<(OsString, OsString)> {
        let pairs = [
            ("HARNESS_TASK_ID", "old"),
            ("HARNESS_TASK_ID", "task-1"),
            ("HARNESS_STATE_ROOT", "/a \"b\""),
            ("HARNESS_API_KEY", "secret"),
            ("OPENAI_API_KEY", "secret"),
            ("LANG", "C"),
            ("HOME", "/h"),
        ];
        pairs.map(|(name, value)| (name.into(), value.into())).to_vec()
    }

    fn server() -> ToolServer {
        ToolServer::new("/opt/harness", ["mcp"])
    }

    #[test]
    fn each_agent_gets_its_own_form() {
        insta::assert_snapshot!(server().for_claude(&environment()), @r#"{"mcpServers":{"harness":{"type":"stdio","command":"/opt/harness","args":["mcp"],"env":{"HARNESS_STATE_ROOT":"/a \"b\"","HARNESS_TASK_ID":"task-1","HOME":"/h"}}}}"#);
        let words = server().for_codex(&environment());
        let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
        insta::assert_snapshot!(words.join("\n"), @r#"
        -c
        mcp_servers.harness.command="/opt/harness"
        -c
        mcp_servers.harness.args=["mcp"]
        -c
        mcp_servers.harness.env={HARNESS_STATE_ROOT="/a \"b\"",HARNESS_TASK_ID="task-1",HOME="/h"}
        -c
        mcp_servers.harness.tool_timeout_sec=86400
        -c
        mcp_servers.harness.default_tools_approval_mode="approve"
        "#);
        insta::assert_snapshot!(server().for_acp(&environment()), @r#"{"name":"harness","command":"/opt/harness","args":["mcp"],"env":[{"name":"HARNESS_STATE_ROOT","value":"/a \"b\""},{"name":"HARNESS_TASK_ID","value":"task-1"},{"name":"HOME","value":"/h"}]}"#);
    }
}
