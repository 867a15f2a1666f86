//! Tests of the text that is written into the files of others, and of its removal without a trace.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const HOOKS: Part = Part::Hooks(CLAUDE_HOOKS);

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// Installs, installs again, installs with another program, and removes.
fn comes_back(part: Part, before: Option<&str>) {
    let once = part.with(before, "harness").unwrap();
    assert_eq!(part.with(once.as_deref(), "harness").unwrap(), once);
    let moved = part.with(once.as_deref(), "/opt/a b/h2").unwrap();
    assert_eq!(part.with(moved.as_deref(), "/opt/a b/h2").unwrap(), moved);
    assert_eq!(part.with(moved.as_deref(), "harness").unwrap(), once);
    for installed in [once, moved] {
        let left = part.without(installed.as_deref()).unwrap();
        assert_eq!(left.as_deref(), before, "{}", installed.unwrap());
    }
}

#[test]
fn a_file_comes_back_byte_by_byte() {
    let files = [
        None,
        Some(""),
        Some(" \r\n\n"),
        Some("\u{feff}"),
        Some("{}"),
        Some("{}\n"),
        Some("{\n}\n"),
        Some("\u{feff}{\"a\": 1}\r\n"),
        Some(r#"{"hooks":{},"mcpServers":{}}"#),
        Some(r#"{"env":{},"hooks":{"Stop":[]}}"#),
        Some("{\n  \"env\": {\n    \"A\": \"b\"\n  }\n}\n"),
        Some(r#"{"hooks":{"Stop":[]},"mcpServers":{"other":{"command":"x"}}}"#),
        Some(
            "{\n    \"hooks\": {\n        \"Stop\": [\n            {\n                \"hooks\": []\n            }\n        ]\n    },\n    \"model\": \"x\"\n}",
        ),
    ];
    for file in files {
        comes_back(HOOKS, file);
        comes_back(Part::Server, file);
    }
    for reader in [Reader::Claude, Reader::Codex] {
        let page = Part::Page(reader).with(None, "harness").unwrap();
        assert_eq!(Part::Page(reader).with(page.as_deref(), "harness").unwrap(), page);
        assert_eq!(Part::Page(reader).without(page.as_deref()).unwrap(), None);
    }
}

#[test]
fn hooks_of_others_stay_beside_ours() {
    let before = r#"{"hooks":{"Stop":[{"matcher":"x","hooks":[{"type":"command","command":"mine hook stop"}]}]}}"#;
    let after = value(&HOOKS.with(Some(before), "harness").unwrap().unwrap());
    let commands = |event: &str| -> Vec<String> {
        let groups = after["hooks"][event].as_array().unwrap().iter();
        let handlers = groups.flat_map(|group| group["hooks"].as_array().unwrap());
        handlers.map(|handler| handler["command"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(commands("Stop"), ["mine hook stop", "harness hook --bound stop self-reflect"]);
    for (event, names) in &CLAUDE_HOOKS.events[1..] {
        assert_eq!(commands(event), [format!("harness hook {names}")]);
    }
}

#[test]
fn an_older_installation_becomes_this_one() {
    let older = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"/old/harness hook stop","timeout":5}]},
        {"hooks":[{"type":"command","command":"harness hook self-reflect"}]},{"hooks":[{"type":"command","command":"x"}]}],
        "Notification":[{"hooks":[{"type":"command","command":"harness hook gone"}]}]}}"#;
    let after = value(&HOOKS.with(Some(older), "harness").unwrap().unwrap());
    let stop = after["hooks"]["Stop"].as_array().unwrap();
    let first = json!({ "type": "command", "command": "harness hook --bound stop self-reflect", "timeout": 5 });
    assert_eq!(stop.len(), 2, "{stop:?}");
    assert_eq!(stop[0]["hooks"], json!([first]));
    assert_eq!(after["hooks"]["Notification"], json!([]));
    let left = HOOKS.without(Some(older)).unwrap().unwrap();
    assert_eq!(
        value(&left)["hooks"]["Stop"],
        json!([{"hooks":[{"type":"command","command":"x"}]}])
    );
}

#[test]
fn variables_before_our_command_stay() {
    let settings = |start: &str| {
        format!(
            r#"{{"hooks":{{"Stop":[{{"hooks":[{{"type":"command","command":"A='b c' {start}"}}]}}]}}}}"#
        )
    };
    let stop = |text: &str| {
        let after = value(&HOOKS.with(Some(text), "harness").unwrap().unwrap());
        assert_eq!(after["hooks"]["Stop"].as_array().unwrap().len(), 1);
        after["hooks"]["Stop"][0]["hooks"][0]["command"].as_str().unwrap().to_owned()
    };
    // A command with the same meaning stays unchanged.
    let same = " harness  hook --bound stop  self-reflect";
    assert_eq!(stop(&settings(same)), format!("A='b c' {same}"));
    for older in ["harness hook stop", "/old/harness hook stop", "h2 hook stop self-reflect"] {
        assert_eq!(stop(&settings(older)), "A='b c' harness hook --bound stop self-reflect");
        let left = HOOKS.without(Some(&settings(older))).unwrap().unwrap();
        assert_eq!(left, r#"{"hooks":{"Stop":[]}}"#);
    }
}

#[test]
fn a_variable_that_is_set_already_stays() {
    let cap = "CLAUDE_CODE_STOP_HOOK_BLOCK_CAP";
    let installed = value(&HOOKS.with(Some("{}"), "harness").unwrap().unwrap());
    assert_eq!(installed["env"], json!({ cap: "50" }));
    let theirs = format!(r#"{{"env":{{"{cap}":"3"}}}}"#);
    let after = HOOKS.with(Some(&theirs), "harness").unwrap();
    assert_eq!(value(after.as_deref().unwrap())["env"], json!({ cap: "3" }));
    assert_eq!(HOOKS.without(after.as_deref()).unwrap(), Some(theirs));
    let codex = Part::Hooks(CODEX_HOOKS).with(None, "harness").unwrap().unwrap();
    assert_eq!(value(&codex).get("env"), None);
}

#[test]
fn a_page_with_the_line_ends_of_windows_is_ours() {
    let (part, page) = (Part::Page(Reader::Claude), page::of(Reader::Claude).replace('\n', "\r\n"));
    assert_eq!(part.with(Some(&page), "harness").unwrap().as_deref(), Some(&*page));
    assert_eq!(part.without(Some(&page)).unwrap(), None);
    let edited = page.replace("small", "big");
    assert_eq!(part.without(Some(&edited)).unwrap().as_deref(), Some(&*edited));
}

#[test]
fn a_group_that_others_use_too_stays() {
    let shared = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"harness hook stop"},{"type":"command","command":"x"}]}]}}"#;
    let left = HOOKS.without(Some(shared)).unwrap().unwrap();
    assert_eq!(left, r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"x"}]}]}}"#);
}

#[test]
fn what_has_another_form_is_refused() {
    let cases = [
        (HOOKS, "{\n  \"a\": }", "at line 2 column 8"),
        (HOOKS, "{", "EOF while parsing"),
        (HOOKS, "[]", "it is not an object"),
        (HOOKS, r#"{"hooks":[]}"#, "hooks is not an object"),
        (HOOKS, r#"{"env":[]}"#, "env is not an object"),
        (HOOKS, r#"{"hooks":{"Stop":{}}}"#, "hooks.Stop is not a list"),
        (Part::Server, r#"{"mcpServers":1}"#, "mcpServers is not an object"),
        (Part::Server, r#"{"mcpServers":{"harness":{"command":"npx"}}}"#, "already exists"),
    ];
    for (part, file, why) in cases {
        let said = part.with(Some(file), "harness").unwrap_err();
        assert!(said.contains(why), "{file}: {said}");
    }
}

#[test]
fn what_is_not_ours_is_not_taken_out() {
    let page = page::of(Reader::Codex).replace("small", "big");
    let server = r#"{"mcpServers":{"harness":{"command":"npx","args":["mcp", "x"]}}}"#;
    let hook = r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"other/harness-like hook stop"}]}]}}"#;
    let mine = Part::Page(Reader::Codex).with(Some(&page), "harness").unwrap();
    assert_eq!(mine.as_deref(), Some(&*page));
    for (part, file) in [(Part::Page(Reader::Codex), &*page), (Part::Server, server), (HOOKS, hook)]
    {
        assert_eq!(part.without(Some(file)).unwrap().as_deref(), Some(file));
    }
}

#[test]
fn the_page_fits_a_page_and_names_commands_that_exist() {
    let page = page::of(Reader::Claude);
    assert!(page.lines().count() <= 80 && page.len() < 6000, "{} bytes", page.len());
    assert!(page.contains("$ARGUMENTS") && page.starts_with("---\n"));
    let all = crate::commands::args::command();
    let mut named = 0;
    for code in page.split('`').skip(1).step_by(2) {
        let Some(words) = code.strip_prefix("harness ") else { continue };
        let mut command = &all;
        for word in words.split_whitespace() {
            if !command.has_subcommands() {
                break;
            }
            command = command.find_subcommand(word).unwrap_or_else(|| panic!("{code}"));
        }
        for word in words.split_whitespace().filter_map(|word| word.strip_prefix("--")) {
            assert!(command.get_arguments().any(|arg| arg.get_long() == Some(word)), "{code}");
        }
        named += 1;
    }
    assert!(named > 10, "{named}");
}

proptest! {
    /// A failing file is printed in full, which replaces its seed.
    #[test]
    fn any_hooks_come_back(blank in "[ \t\r\n]{0,3}", group in json_text::tests::documents()) {
        let list = [group.as_str(), "null"].join(&format!("{blank},"));
        for list in ["", &group, &list] {
            comes_back(HOOKS, Some(&format!("{{{blank}\"hooks\":{{{blank}\"Stop\":[{blank}{list}]}}}}")));
        }
    }

    #[test]
    fn any_settings_come_back(file in json_text::tests::documents()) {
        for part in [HOOKS, Part::Server] {
            if part.with(Some(&file), "harness").is_ok() {
                comes_back(part, Some(&file));
            } else {
                // The file has another form. Then it is left alone or refused, but never changed.
                let left = part.without(Some(&file));
                prop_assert!(left.is_err() || left.unwrap().as_deref() == Some(&*file));
            }
        }
    }
}
