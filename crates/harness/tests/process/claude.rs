//! Claude Code's adapter, with programs that use the same protocol.

use std::path::{Path, PathBuf};

use harness::{
    Event,
    agent::{ClaudeAgent, ClaudeSettings, Prompt},
    core::agent::{End, FailureKind, StoppedBy, Usage},
};
use harness_sim::conformance::agent::{Begun, Place, conforms, converses, execute};

use crate::stage::within;

/// Runs the prompt as a script, and then reports that it is done.
const OBEYS: &str = r#"
    sh "$HARNESS_PROMPT_FILE"
    code=$?
    [ $code -le 128 ] || kill -$((code - 128)) $$
    [ $code = 0 ] || exit $code
    echo
    echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"TASK_COMPLETE"}'
    [ ! -e ../stays ] || exec sleep 100000
"#;

fn script(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("claude.sh");
    std::fs::write(&path, text).unwrap();
    path
}

fn agent(path: &Path, more: ClaudeSettings) -> ClaudeAgent {
    let command = Some(format!("sh {}", path.display()));
    ClaudeAgent::new(ClaudeSettings { command, ..more }).unwrap()
}

fn run(text: &str, more: ClaudeSettings, prompt: Prompt, place: &Place) -> (End, Vec<Event>) {
    let agent = agent(&script(place.path(), text), more);
    let (end, events) = within(execute(agent, prompt, Begun::Nothing)).unwrap();
    (end, events.iter().map(|envelope| envelope.event.clone()).collect())
}

pub(crate) fn claude_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let path = script(folder.path(), OBEYS);
    within(conforms(|| agent(&path, ClaudeSettings::default())));
    within(converses(agent(&path, ClaudeSettings::default())));
}

/// Its input stays open for answers, and ends with the result. Otherwise this program would never
/// end.
pub(crate) fn claude_is_spoken_to() {
    let place = Place::new();
    let text = r#"
        read -r prompt
        echo '{"type":"system","subtype":"init","session_id":"s"}'
        echo '{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"tool_use","id":"t","name":"WebFetch","input":{}}],"usage":{"input_tokens":7,"output_tokens":1}}}'
        echo '{"type":"control_request","request_id":"r","request":{"subtype":"can_use_tool","tool_name":"WebFetch","input":{}}}'
        read -r answer
        printf '%s\n' "$prompt" "$answer" "$*" > ../said
        echo '{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t","type":"tool_result","content":"no","is_error":true}]}}'
        echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"done","total_cost_usd":0.5,"modelUsage":{"x":{"inputTokens":9,"outputTokens":4,"costUSD":0.5}}}'
        cat > ../rest
    "#;
    let mut prompt = place.prompt("do \"this\"\nand that");
    prompt.cost_left_usd = Some(1.25);
    let more = ClaudeSettings { model: Some("m-1".into()), ..ClaudeSettings::default() };
    let (end, events) = run(text, more, prompt, &place);
    let usage = Usage { input_tokens: 9, output_tokens: 4, cost_usd: Some(0.5) };
    assert_eq!(end, End::Finished { final_text: "done".to_owned(), usage });
    let said = std::fs::read_to_string(place.path().join("said")).unwrap();
    let [prompt, answer, arguments] = said.lines().collect::<Vec<_>>()[..] else {
        panic!("{said}")
    };
    assert!(prompt.contains(r#""text":"do \"this\"\nand that""#), "{prompt}");
    assert!(answer.contains(r#""behavior":"deny""#) && answer.contains(r#""request_id":"r""#));
    for words in [
        "-p --output-format stream-json --verbose --input-format stream-json",
        "--permission-mode acceptEdits --permission-prompt-tool stdio",
        "--model m-1",
        "--max-budget-usd 1.25",
    ] {
        assert!(arguments.contains(words), "{words}: {arguments}");
    }
    assert!(!arguments.contains("--dangerously"), "{arguments}");
    assert_eq!(std::fs::read_to_string(place.path().join("rest")).unwrap(), "");
    let tools: Vec<bool> = events
        .iter()
        .filter_map(|event| match event {
            Event::AgentToolStart { .. } => Some(true),
            Event::AgentToolComplete { is_error, .. } => Some(*is_error != Some(true)),
            _ => None,
        })
        .collect();
    assert_eq!(tools, [true, false]);
}

/// The cost is reported even if it is stopped.
pub(crate) fn claude_is_interrupted_before_it_is_killed() {
    let place = Place::new();
    let path = script(
        place.path(),
        r#"
        read -r prompt
        sh -c 'exec 9>"$HARNESS_ROLL"; echo here >&9'
        read -r request
        case $request in *interrupt*) ;; *) exit 1;; esac
        echo '{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","total_cost_usd":0.25}'
        "#,
    );
    let mut prompt = place.prompt("work");
    prompt.limits.grace = crate::stage::LONG;
    let begun = Begun::Cancel(place.watch());
    let agent = agent(&path, ClaudeSettings::default());
    let (end, events) = within(execute(agent, prompt, begun)).unwrap();
    assert_eq!(end, End::Stopped { by: StoppedBy::User });
    let cost = events.iter().find_map(|envelope| match envelope.event {
        Event::AgentUsage { cost_usd, .. } => cost_usd,
        _ => None,
    });
    assert_eq!(cost, Some(0.25));
}

/// A message of a person reaches it in its turn, and must be answered before the turn is over.
pub(crate) fn claude_hears_what_people_say() {
    let place = Place::new();
    let path = script(
        place.path(),
        r#"
        read -r prompt
        sh -c 'exec 9>"$HARNESS_ROLL"; echo here >&9'
        read -r message
        read -r line < ../told
        printf '%s\n' "$message" > ../said
        echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"first"}'
        cat
        echo '{"type":"system","subtype":"init","session_id":"s"}'
        echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"second"}'
        "#,
    );
    let begun = place.say("leave the parser alone");
    let agent = agent(&path, ClaudeSettings::default());
    let (end, _) = within(execute(agent, place.prompt("work"), begun)).unwrap();
    let End::Finished { final_text, .. } = end else { panic!("{end:?}") };
    assert_eq!(final_text, "first\n\nsecond");
    let said = std::fs::read_to_string(place.path().join("said")).unwrap();
    assert!(said.contains(r#""text":"leave the parser alone""#), "{said}");
}

/// A silent program is asked first, so that it reports its cost here too.
pub(crate) fn a_silent_claude_is_interrupted() {
    let place = Place::new();
    let text = r#"
        read -r prompt
        read -r request
        case $request in *interrupt*) ;; *) exit 1;; esac
        echo '{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_streaming","total_cost_usd":0.25}'
    "#;
    let stall = Some(std::time::Duration::from_millis(100));
    let more = ClaudeSettings { stall, ..ClaudeSettings::default() };
    let mut prompt = place.prompt("work");
    prompt.limits.grace = crate::stage::LONG;
    let (end, events) = run(text, more, prompt, &place);
    assert_eq!(end, End::Stopped { by: StoppedBy::Stall });
    let is_cost = |event: &Event| matches!(event, Event::AgentUsage { cost_usd: Some(0.25), .. });
    assert!(events.iter().any(is_cost), "{events:?}");
}

pub(crate) fn claude_sees_its_own_variables_and_no_others() {
    let place = Place::new();
    let mut prompt = place.prompt("env > ../seen");
    for (name, value) in [
        ("ANTHROPIC_API_KEY", "sk-ant-0123456789"),
        ("DISABLE_TELEMETRY", "1"),
        ("OPENAI_API_KEY", "sk-other-0123456789"),
        ("MINE", "x"),
        ("SET", "of the caller"),
    ] {
        prompt.environment.push((name.into(), value.into()));
    }
    let env = ["MINE", "SET=here", "OWN_TOKEN=0123456789abc"].map(str::to_owned).to_vec();
    let text = format!("echo \"$OWN_TOKEN $ANTHROPIC_API_KEY\"\n{OBEYS}");
    let more = ClaudeSettings { env, ..ClaudeSettings::default() };
    let (end, _) = run(&text, more, prompt, &place);
    assert!(matches!(end, End::Finished { .. }), "{end:?}");
    let seen = std::fs::read_to_string(place.path().join("seen")).unwrap();
    for line in ["ANTHROPIC_API_KEY=sk-ant-0123456789", "DISABLE_TELEMETRY=1", "MINE=x", "SET=here"]
    {
        assert!(seen.lines().any(|l| l == line), "{line}: {seen}");
    }
    assert!(seen.contains("HARNESS_PROMPT_FILE=") && !seen.contains("OPENAI"), "{seen}");
    let transcript = place.path().join("state/transcripts/execution-1.log");
    let transcript = std::fs::read_to_string(transcript).unwrap();
    assert!(transcript.starts_with("[redacted:OWN_TOKEN] [redacted:ANTHROPIC_API_KEY]\n"));
}

/// A secret that is a word of the protocol does not break the protocol.
pub(crate) fn secrets_do_not_break_the_protocol_of_claude() {
    let place = Place::new();
    let mut prompt = place.prompt("x");
    prompt.environment.push(("X_PASSWORD".into(), "is_error".into()));
    let text = r#"
        echo '{"type":"assistant","message":{"id":"m","model":"x","content":[{"type":"text","text":"It is is_error."}]}}'
        echo '{"type":"result","subtype":"success","is_error":false,"terminal_reason":"completed","result":"TASK_COMPLETE, is_error"}'
    "#;
    let (end, events) = run(text, ClaudeSettings::default(), prompt, &place);
    let End::Finished { final_text, .. } = end else { panic!("{end:?}") };
    assert_eq!(final_text, "TASK_COMPLETE, [redacted:X_PASSWORD]");
    let said = |event: &Event| matches!(event, Event::AgentText { content, .. } if content == "It is [redacted:X_PASSWORD].");
    assert!(events.iter().any(said), "{events:?}");
}

/// A result that is too long to be read is lost, and this is reported.
pub(crate) fn what_claude_says_at_too_great_length_is_named() {
    let place = Place::new();
    let text = r#"printf '{"type":"result","result":"'; head -c 17000000 /dev/zero | tr '\0' x; echo '"}'"#;
    let (end, _) = run(text, ClaudeSettings::default(), place.prompt("x"), &place);
    let End::Failed { kind: FailureKind::Protocol, detail } = end else { panic!("{end:?}") };
    assert!(detail.contains("1 lines were longer than 16 MiB"), "{detail}");
}

pub(crate) fn claude_does_not_bypass_permissions_as_root() {
    let place = Place::new();
    let more = || ClaudeSettings { yolo: true, ..ClaudeSettings::default() };
    let text = format!("echo \"$*\" > ../arguments\n{OBEYS}");
    let (end, _) = run(&text, more(), place.prompt("true"), &place);
    let arguments = place.path().join("arguments");
    if rustix::process::geteuid().is_root() {
        let End::Failed { kind: FailureKind::Config, detail } = end else { panic!("{end:?}") };
        assert!(detail.contains("root") && !arguments.exists(), "{detail}");
    } else {
        assert!(matches!(end, End::Finished { .. }), "{end:?}");
    }
    // In a sandbox it does not refuse.
    let sandbox = ClaudeSettings { env: vec!["IS_SANDBOX=1".into()], ..more() };
    let (end, _) = run(&text, sandbox, place.prompt("true"), &place);
    assert!(matches!(end, End::Finished { .. }), "{end:?}");
    let arguments = std::fs::read_to_string(arguments).unwrap();
    assert!(arguments.contains("--dangerously-skip-permissions"), "{arguments}");
}
