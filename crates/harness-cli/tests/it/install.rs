//! `install` and `uninstall`, and the settings of agents after them.

use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use serde_json::{Value, json};

use crate::environment::TestEnvironment;

/// Returns a world with the program under test on the PATH.
fn world() -> TestEnvironment {
    on_path(TestEnvironment::with_git())
}

fn on_path(env: TestEnvironment) -> TestEnvironment {
    let bin = Path::new(env!("CARGO_BIN_EXE_harness")).parent().unwrap().to_owned();
    let path = std::env::var_os("PATH").unwrap();
    let path = std::env::join_paths([bin].into_iter().chain(std::env::split_paths(&path)));
    env.variable("PATH", path.unwrap())
}

/// Returns all files below a directory with their content, except those of git.
fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            if path.is_dir() && name != ".git" {
                found.push((name, Vec::new()));
                folders.push(path);
            } else if path.is_file() {
                found.push((name, fs::read(path).unwrap()));
            }
        }
    }
    found.sort();
    found
}

fn names(folder: &Path) -> Vec<String> {
    files(folder).into_iter().map(|(name, _)| name).collect()
}

#[test]
fn claude_gets_hooks_a_command_and_a_server() {
    let env = world();
    let before = files(env.root());
    env.run(["install", "claude"]).success().stderr("").stdout_contains("/harness");
    let settings: Value = serde_json::from_str(&env.read(".claude/settings.json")).unwrap();
    let stop = json!([{ "hooks": [{ "type": "command", "command": "harness hook --bound stop self-reflect" }] }]);
    assert_eq!(settings["hooks"]["Stop"], stop);
    assert_eq!(settings["hooks"].as_object().unwrap().len(), 6);
    assert_eq!(settings["env"], json!({ "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP": "50" }));
    let servers: Value = serde_json::from_str(&env.read(".mcp.json")).unwrap();
    assert_eq!(servers["mcpServers"]["harness"], json!({ "command": "harness", "args": ["mcp"] }));
    assert!(env.read(".claude/commands/harness.md").contains("$ARGUMENTS"));
    env.run(["install", "claude"]).success().stdout("already installed");
    env.run(["uninstall", "claude"]).success().stdout_contains("removed .mcp.json");
    assert_eq!(files(env.root()), before);
    env.run(["uninstall", "claude"]).success().stdout("nothing is installed");
}

#[test]
fn codex_gets_hooks_a_skill_and_a_server() {
    let env = world();
    let before = files(env.root());
    env.run(["install", "codex"]).success().stdout_contains("/hooks");
    let hooks: Value = serde_json::from_str(&env.read(".codex/hooks.json")).unwrap();
    let events: Vec<_> = hooks["hooks"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(events, ["Stop", "UserPromptSubmit", "SessionStart", "SubagentStop"]);
    assert!(
        env.read(".codex/config.toml")
            .starts_with("[mcp_servers.harness]\ncommand = \"harness\"\n")
    );
    assert!(env.read(".agents/skills/harness/SKILL.md").starts_with("---\nname: harness\n"));
    env.run(["uninstall", "codex"]).success();
    assert_eq!(files(env.root()), before);
}

/// Files that other people have written, in their own style.
const THEIRS: [(&str, &str); 4] = [
    (
        ".claude/settings.json",
        "{\n\t\"permissions\": {\"allow\": [\"Bash(ls:*)\"]},\n\t\"hooks\": {\n\t\t\"Stop\": [ {\"hooks\": [{\"type\":\"command\",\"command\":\"say done\"}]} ]\n\t},\n\t\"model\" : \"opus\"}",
    ),
    (".mcp.json", "{\"mcpServers\":{\"db\":{\"command\":\"db\",\"args\":[]}}}\r\n"),
    (".codex/config.toml", "# mine\nmodel = 'x'   # why\n\n[mcp_servers.db]\ncommand = \"db\""),
    (".codex/hooks.json", "{ \"hooks\": {} }\n"),
];

#[test]
fn what_others_wrote_comes_back_byte_by_byte() {
    let env = world();
    for (name, text) in THEIRS {
        env.write(name, text);
    }
    let mode = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(env.root().join(".mcp.json"), mode(0o600)).unwrap();
    let before = files(env.root());
    for agent in ["claude", "codex"] {
        env.run(["install", agent]).success();
        env.run(["install", agent]).success().stdout("already installed");
        for program in ["/opt/new place/harness", "/opt/new place/h2"] {
            env.run(["install", agent, "--program", program]).success();
            env.run(["install", agent, "--program", program]).success().stdout("already installed");
        }
    }
    assert!(env.read(".claude/settings.json").contains("'/opt/new place/h2' hook --bound stop"));
    assert!(env.read(".claude/settings.json").contains("say done"));
    let kept = fs::metadata(env.root().join(".mcp.json")).unwrap().permissions();
    assert_eq!(kept.mode() & 0o777, 0o600);
    for agent in ["claude", "codex"] {
        env.run(["uninstall", agent]).success();
    }
    assert_eq!(files(env.root()), before);
}

#[test]
fn a_dry_run_shows_a_diff_and_changes_nothing() {
    let env = world();
    env.write(".mcp.json", "{\n  \"mcpServers\": {\n    \"db\": {}\n  }\n}\n");
    let before = files(env.root());
    let ran = env.run(["install", "claude", "--dry-run"]).success();
    insta::assert_snapshot!(ran.output().split_once("--- a/.mcp.json").unwrap().1, @r#"

    +++ b/.mcp.json
    @@ -1,5 +1,11 @@
     {
       "mcpServers": {
    -    "db": {}
    +    "db": {},
    +    "harness": {
    +      "command": "harness",
    +      "args": [
    +        "mcp"
    +      ]
    +    }
       }
     }
    "#);
    assert!(ran.output().contains("--- /dev/null\n+++ b/.claude/settings.json\n"));
    assert_eq!(files(env.root()), before);
    let document = env.run(["install", "codex", "--dry-run", "--json"]).success().json();
    assert_eq!((&document["agent"], &document["scope"]), (&json!("codex"), &json!("project")));
    assert_eq!(document["changes"][0]["action"], "made");
    assert!(document["diff"].as_str().unwrap().contains("+[mcp_servers.harness]"));
    assert_eq!(files(env.root()), before);
}

#[test]
fn a_file_that_makes_no_sense_is_named_and_nothing_is_changed() {
    let env = world();
    for (agent, file, text, place) in [
        ("claude", ".mcp.json", "{\n  \"a\": }\n", "line 2 column 8"),
        ("claude", ".claude/settings.json", "{ // why\n}", "line 1 column 3"),
        ("codex", ".codex/config.toml", "a = 1\nb\n", "line 2 column"),
        ("codex", ".codex/hooks.json", "{", "line 1 column 1"),
    ] {
        env.write(file, text);
        let before = files(env.root());
        for command in ["install", "uninstall"] {
            let ran = env.run([command, agent]).code(5);
            let ran = ran.stderr_contains(file).stderr_contains(place);
            ran.stderr_contains("nothing was changed");
            assert_eq!(files(env.root()), before, "{command} {file}");
        }
        fs::remove_file(env.root().join(file)).unwrap();
    }
    fs::write(env.root().join(".mcp.json"), b"\xff").unwrap();
    env.run(["install", "claude"]).code(5).stderr_contains("is not UTF-8");
}

#[test]
fn a_page_that_was_edited_is_left_alone() {
    let env = world();
    env.run(["install", "claude"]).success();
    let page = env.read(".claude/commands/harness.md").replace("Do not stop early", "Rest well");
    env.write(".claude/commands/harness.md", &page);
    let ran = env.run(["install", "claude"]).success().stdout("already installed");
    ran.stderr_contains("commands/harness.md was edited and stays");
    for said in ["uninstalled", "nothing is installed"] {
        let ran = env.run(["uninstall", "claude"]).success().stdout_contains(said);
        ran.stderr_contains("commands/harness.md was edited and stays; remove it");
    }
    assert_eq!(names(env.root()), [".claude", ".claude/commands", ".claude/commands/harness.md"]);
    assert_eq!(env.read(".claude/commands/harness.md"), page);
}

#[test]
fn what_codex_adds_to_our_server_goes_with_it() {
    let env = world();
    let before = files(env.root());
    env.run(["install", "codex"]).success();
    let config = env.read(".codex/config.toml").replace("harness]\n", "harness] # mine\n");
    let added = "tool_timeout_sec = 3600\n\n[mcp_servers.harness.env]\nA = \"1\"\n\n\
        [mcp_servers.harness.tools.task_claim]\napproval_mode = \"approve\"\n";
    env.write(".codex/config.toml", format!("{config}{added}"));
    env.run(["install", "codex"]).success().stdout("already installed");
    env.run(["install", "codex", "--program", "/opt/h2"]).success();
    let moved = env.read(".codex/config.toml");
    assert!(moved.contains("command = \"/opt/h2\"\n") && moved.ends_with(added), "{moved}");
    env.run(["uninstall", "codex"]).success();
    assert_eq!(files(env.root()), before);
}

#[test]
fn an_older_server_gets_its_variables() {
    let env = world();
    let older = "[mcp_servers.harness]\ncommand = \"harness\"\nargs = [\"mcp\"]\n";
    env.write(".codex/config.toml", older);
    env.run(["install", "codex"]).success().stdout_contains("changed .codex/config.toml");
    let new = env.read(".codex/config.toml");
    assert!(new.starts_with(&format!("{older}env_vars = [\"HARNESS_STATE_ROOT\",")), "{new}");
}

#[test]
fn a_program_without_a_name_is_refused() {
    let env = world();
    let before = files(env.root());
    for program in ["", " "] {
        let ran = env.run(["install", "claude", "--program", program]).code(2);
        ran.stderr_contains("--program is empty");
    }
    assert_eq!(files(env.root()), before);
}

#[test]
fn blank_files_come_back() {
    let env = world();
    for (name, text) in [
        (".claude/settings.json", ""),
        (".mcp.json", "\n"),
        (".codex/hooks.json", " "),
        (".codex/config.toml", ""),
    ] {
        env.write(name, text);
    }
    let before = files(env.root());
    for agent in ["claude", "codex"] {
        env.run(["uninstall", agent]).success().stdout("nothing is installed");
        env.run(["install", agent]).success();
        env.run(["install", agent]).success().stdout("already installed");
    }
    let settings: Value = serde_json::from_str(&env.read(".claude/settings.json")).unwrap();
    assert_eq!(settings["hooks"].as_object().unwrap().len(), 6);
    for agent in ["claude", "codex"] {
        env.run(["uninstall", agent]).success();
    }
    assert_eq!(files(env.root()), before);
}

#[test]
fn a_diff_of_lines_as_windows_ends_them_can_be_applied() {
    let env = world();
    env.write(".mcp.json", "{\r\n  \"mcpServers\": {\r\n\t\"db\": {}\r\n  }\r\n}\r\n");
    let ran = env.run(["install", "claude", "--dry-run"]).success();
    let diff = env.home().join("the.diff");
    fs::write(&diff, format!("{}\n", ran.raw())).unwrap();
    env.git([Path::new("apply"), &diff]);
    env.run(["install", "claude"]).success().stdout("already installed");
}

/// The skill cannot be written here, which becomes known only after the rest is written.
#[test]
fn a_write_that_fails_leaves_nothing_of_the_others() {
    let env = world();
    env.write(".codex/hooks.json", "{}\n");
    let mode = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(env.root().join(".codex/hooks.json"), mode(0o600)).unwrap();
    std::os::unix::fs::symlink("nowhere", env.root().join(".agents")).unwrap();
    let before = files(env.root());
    let ran = env.run(["install", "codex"]).code(1);
    ran.stderr_contains("skills/harness/SKILL.md").stderr_contains("nothing was changed");
    assert_eq!(files(env.root()), before);
    let kept = fs::metadata(env.root().join(".codex/hooks.json")).unwrap().permissions();
    assert_eq!(kept.mode() & 0o777, 0o600);
}

/// `install` made the files, and a person moved them to the place of such files.
#[test]
fn what_links_lead_to_is_emptied() {
    let env = world();
    for agent in ["claude", "codex"] {
        env.run(["install", agent]).success();
    }
    let links =
        [(".claude/settings.json", "{}\n"), (".mcp.json", "{}\n"), (".codex/config.toml", "")];
    for (at, (name, _)) in links.into_iter().enumerate() {
        let kept = env.home().join(format!("kept-{at}"));
        fs::rename(env.root().join(name), &kept).unwrap();
        std::os::unix::fs::symlink(&kept, env.root().join(name)).unwrap();
    }
    for agent in ["claude", "codex"] {
        env.run(["uninstall", agent]).success();
        env.run(["uninstall", agent]).success().stdout("nothing is installed");
    }
    for (name, text) in links {
        assert!(env.root().join(name).is_symlink(), "{name}");
        assert_eq!(env.read(name), text, "{name}");
    }
    assert!(!env.exists(".codex/hooks.json"));
}

#[test]
fn links_are_written_through() {
    let env = world();
    let dotfiles = env.home().join("dotfiles.json");
    fs::write(&dotfiles, "{}").unwrap();
    fs::create_dir(env.root().join(".claude")).unwrap();
    let link = env.root().join(".claude/settings.json");
    std::os::unix::fs::symlink(&dotfiles, &link).unwrap();
    env.run(["install", "claude"]).success();
    assert!(fs::read_to_string(&dotfiles).unwrap().contains("harness hook --bound stop"));
    env.run(["uninstall", "claude"]).success();
    assert!(link.is_symlink());
    assert_eq!(fs::read_to_string(&dotfiles).unwrap(), "{}");
    fs::remove_file(&dotfiles).unwrap();
    env.run(["install", "claude"]).code(5).stderr_contains("is a broken link");
}

#[test]
fn for_a_user_it_is_in_the_home() {
    let env = world();
    fs::write(env.home().join(".claude.json"), "{\n  \"userID\": \"x\"\n}").unwrap();
    let before = (files(env.home()), files(env.root()));
    for agent in ["claude", "codex"] {
        env.run(["install", agent, "--user"]).success();
    }
    let found = names(env.home());
    for name in [
        ".claude/settings.json",
        ".claude/commands/harness.md",
        ".codex/hooks.json",
        ".codex/config.toml",
        ".agents/skills/harness/SKILL.md",
    ] {
        assert!(found.iter().any(|found| found == name), "{name}");
    }
    let own: Value =
        serde_json::from_slice(&fs::read(env.home().join(".claude.json")).unwrap()).unwrap();
    assert_eq!(own["mcpServers"]["harness"]["command"], "harness");
    for agent in ["claude", "codex"] {
        env.run(["uninstall", agent, "--user"]).success();
    }
    assert_eq!((files(env.home()), files(env.root())), before);
    let moved = env.home().join("moved");
    let env =
        env.variable("CLAUDE_CONFIG_DIR", moved.join("c")).variable("CODEX_HOME", moved.join("x"));
    env.run(["install", "claude", "--user"]).success();
    env.run(["install", "codex", "--user"]).success();
    let found = names(&moved);
    for name in ["c/.claude.json", "c/settings.json", "x/config.toml", "x/hooks.json"] {
        assert!(found.iter().any(|found| found == name), "{name} in {found:?}");
    }
}

#[test]
fn the_program_that_is_written_is_one_that_works() {
    let env = TestEnvironment::new();
    let ran = env.run(["install", "claude"]).success();
    ran.stderr_contains("not on the PATH").stderr_contains("--program");
    assert!(
        env.read(".claude/settings.json").contains("\"harness hook --bound stop self-reflect\"")
    );
    env.run(["install", "claude", "--user"]).success().stderr_contains("the files name");
    let settings = fs::read_to_string(env.home().join(".claude/settings.json")).unwrap();
    assert!(
        settings.contains(&format!("{} hook --bound stop", env!("CARGO_BIN_EXE_harness"))),
        "{settings}"
    );
}

#[test]
fn the_project_is_where_the_agent_is_started() {
    let env = world();
    env.write("sub/harness-tasks.json", "{\"tasks\":[]}")
        .write("sub/deep/x", "")
        .write("other/x", "");
    env.run(["-C", "sub/deep", "install", "claude"]).success();
    assert!(env.exists("sub/.mcp.json"));
    env.run(["-C", "other", "install", "claude"]).success();
    assert!(env.exists(".mcp.json"));
}
