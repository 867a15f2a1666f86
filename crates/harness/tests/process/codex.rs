//! The adapter of Codex, with a program that prints the output of Codex.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc};

use harness::{
    Envelope, Event,
    agent::CodexAgent,
    core::agent::{End, FailureKind, KeptContext, Usage},
    process::Allowed,
};
use harness_sim::conformance::agent::{Begun, Place, conforms, converses, execute};

use crate::stage::within;

/// Runs its prompt as a script, gives the promise if it succeeded, and ends with the same exit
/// code.
const RUNS_ITS_PROMPT: &str = r#"#!/bin/sh
cat > /dev/null
echo '{"type":"thread.started","thread_id":"thread-1"}'
echo '{"type":"turn.started"}'
sh "$HARNESS_PROMPT_FILE"
code=$?
[ $code -lt 128 ] || kill -KILL $$
[ $code -eq 0 ] || exit $code
echo
echo '{"type":"item.completed","item":{"id":"item_0","type":"agent_message","text":"TASK_COMPLETE"}}'
echo '{"type":"turn.completed","usage":{"input_tokens":10,"output_tokens":1}}'
[ ! -e ../stays ] || exec sleep 100000
"#;

/// Prints its prompt, which is the output of Codex, and ends with the code in
/// `HARNESS_TEST_EXIT`.
const PRINTS_ITS_PROMPT: &str = "#!/bin/sh\ncat\nexit ${HARNESS_TEST_EXIT:-0}\n";

fn program(folder: &Path, text: &str) -> CodexAgent {
    let path = folder.join("codex");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    CodexAgent::new(path.to_str().unwrap(), Allowed::codex()).unwrap()
}

fn after(lines: &str, exit: &str) -> (End, Vec<Arc<Envelope>>) {
    let place = Place::new();
    let mut prompt = place.prompt(lines);
    prompt.environment.push(("HARNESS_TEST_EXIT".into(), exit.into()));
    prompt.environment.push(("MY_API_KEY".into(), "very-secret-value".into()));
    let agent = program(place.path(), PRINTS_ITS_PROMPT);
    let (end, events) = within(execute(agent, prompt, Begun::Nothing)).unwrap();
    let transcript = place.path().join("state/transcripts/execution-1.log");
    assert!(!fs::read_to_string(transcript).unwrap().contains("very-secret-value"));
    (end, events)
}

pub(crate) fn codex_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let agent = program(folder.path(), RUNS_ITS_PROMPT);
    within(conforms(|| agent.clone()));
    within(converses(agent));
}

pub(crate) fn a_turn_of_codex_is_told() {
    let lines = r#"{"type":"thread.started","thread_id":"thread-1"}
{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Only a warning."}}
{"type":"turn.started"}
{"type":"error","message":"Reconnecting... 1/5"}
{"type":"item.completed","item":{"id":"item_1","type":"reasoning","text":"Plan."}}
{"type":"item.completed","item":{"id":"item_2","type":"agent_message","text":"TASK_COMPLETE soon."}}
not JSON at all
{"type":"item.started","item":{"id":"item_3","type":"command_execution","command":"echo very-secret-value","aggregated_output":"","exit_code":null,"status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_3","type":"command_execution","command":"echo very-secret-value","aggregated_output":"very-secret-value\n","exit_code":0,"status":"completed"}}
{"type":"item.completed","item":{"id":"item_4","type":"file_change","changes":[],"status":"failed"}}
{"type":"item.completed","item":{"id":"item_5","type":"agent_message","text":"Done, very-secret-value"}}
{"type":"turn.completed","usage":{"input_tokens":3000,"cached_input_tokens":100,"output_tokens":150}}"#;
    let (end, events) = after(lines, "0");
    let usage = Usage { input_tokens: 3000, output_tokens: 150, cost_usd: None };
    let final_text = "Done, [redacted:MY_API_KEY]".to_owned();
    assert_eq!(end, End::Finished { final_text, usage });
    let told: Vec<String> = events.iter().filter_map(|told| show(&told.event)).collect();
    assert_eq!(
        told,
        [
            "thinks Plan.",
            "says TASK_COMPLETE soon.",
            "begins command_execution {\"command\":\"echo [redacted:MY_API_KEY]\"}",
            "ends command_execution \"[redacted:MY_API_KEY]\\n\" well",
            "begins file_change {\"changes\":[]}",
            "ends file_change null badly",
            "says Done, [redacted:MY_API_KEY]",
            "used 3000 150",
        ]
    );
}

pub(crate) fn show(event: &Event) -> Option<String> {
    let json = |value: &Option<serde_json::Value>| serde_json::json!(value).to_string();
    Some(match event {
        Event::AgentText { content, .. } => format!("says {content}"),
        Event::AgentThinking { content, .. } => format!("thinks {content}"),
        Event::AgentToolStart { tool_name, input, .. } => {
            format!("begins {tool_name} {}", json(input))
        }
        Event::AgentToolComplete { tool_name, result, is_error, .. } => {
            let how = if *is_error == Some(true) { "badly" } else { "well" };
            format!("ends {tool_name} {} {how}", json(result))
        }
        Event::AgentUsage { context_tokens: Some(used), context_window: Some(window), .. } => {
            format!("context {used} of {window}")
        }
        Event::AgentUsage { input_tokens, output_tokens, cost_usd, .. } => match cost_usd {
            Some(cost) => format!("used {input_tokens} {output_tokens} for {cost}"),
            None => format!("used {input_tokens} {output_tokens}"),
        },
        _ => return None,
    })
}

pub(crate) fn codex_says_why_it_ended() {
    let failed = |message: &str| {
        format!(
            "{{\"type\":\"error\",\"message\":\"{message}\"}}\n\
             {{\"type\":\"turn.failed\",\"error\":{{\"message\":\"{message}\"}}}}"
        )
    };
    for (lines, exit, expected) in [
        (failed("unexpected status 401 Unauthorized: no, url: http://x"), "1", "Auth"),
        (failed("exceeded retry limit, last status: 429 Too Many Requests"), "1", "Limited"),
        (
            failed("You’ve hit your usage limit. Try again at Jan 15th, 2027 8:00 AM."),
            "1",
            "Limited",
        ),
        (failed("We’re currently experiencing high demand."), "1", "Network"),
        (failed("stream disconnected before completion: closed"), "1", "Network"),
        (failed("your input exceeds the context window of this model"), "1", "OutOfContext"),
        (failed("Incomplete response returned, reason: content_filter"), "1", "Refused"),
        (failed("nobody knows"), "1", "Crashed"),
        // If it did not end its turn, its earlier output and its exit code decide.
        (
            r#"{"type":"error","message":"unexpected status 401 Unauthorized"}"#.to_owned(),
            "1",
            "Auth",
        ),
        (r#"{"type":"turn.started"}"#.to_owned(), "1", "Crashed"),
        (r#"{"type":"turn.started"}"#.to_owned(), "0", "Protocol"),
        (String::new(), "2", "Config"),
        (String::new(), "127", "NotFound"),
        (failed("Error loading config.toml: TOML parse error at line 1"), "1", "Config"),
        // The turn was completed, and then the process failed.
        (r#"{"type":"turn.completed","usage":{}}"#.to_owned(), "1", "Crashed"),
        (r#"{"type":"turn.completed","usage":{}}"#.to_owned(), "0", "Finished"),
    ] {
        assert_eq!(name(&after(&lines, exit).0), expected, "{lines} {exit}");
    }
    let place = Place::new();
    let agent = CodexAgent::new("no-such-codex", Allowed::codex()).unwrap();
    let end = within(execute(agent, place.prompt("x"), Begun::Nothing)).unwrap().0;
    assert!(matches!(end, End::Failed { kind: FailureKind::NotFound, .. }), "{end:?}");
}

/// Returns the kind of an end as one word.
pub(crate) fn name(end: &End) -> String {
    match end {
        End::Failed { kind, .. } => format!("{kind:?}"),
        other => format!("{other:?}").split([' ', '{']).next().unwrap().to_owned(),
    }
}

/// It accepts no messages while it works, and is not disturbed by them.
pub(crate) fn codex_works_on_whatever_people_say() {
    let place = Place::new();
    let script = r#"exec 9>"$HARNESS_ROLL"; echo here >&9; exec 9>&-; read -r line < ../told"#;
    let begun = place.say("hurry");
    let agent = program(place.path(), RUNS_ITS_PROMPT);
    let (end, _) = within(execute(agent, place.prompt(script), begun)).unwrap();
    assert_eq!(name(&end), "Finished");
}

pub(crate) fn a_thread_of_codex_can_be_resumed() {
    let place = Place::new();
    let text = r#"#!/bin/sh
cat > prompt
echo "$@" > arguments
echo '{"type":"turn.completed","usage":{"input_tokens":30,"output_tokens":4}}'
"#;
    let used = Usage { input_tokens: 20, output_tokens: 1, cost_usd: None };
    let kept = Some(KeptContext { session: "thread-1".to_owned(), used });
    let prompt = place.prompt("Go on").kept(kept);
    let end = within(execute(program(place.path(), text), prompt, Begun::Nothing)).unwrap().0;
    let usage = Usage { input_tokens: 10, output_tokens: 3, cost_usd: None };
    assert_eq!(end, End::Finished { final_text: String::new(), usage });
    let tree = place.path().join("tree");
    assert_eq!(fs::read_to_string(tree.join("prompt")).unwrap(), "Go on");
    let arguments = fs::read_to_string(tree.join("arguments")).unwrap();
    let expected = format!(
        "exec --json -s workspace-write -C {} resume thread-1 -\n",
        place.path().join("tree").display()
    );
    assert_eq!(arguments, expected);
}
