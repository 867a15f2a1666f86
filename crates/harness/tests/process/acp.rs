//! The adapter of the Agent Client Protocol, with programs that speak it.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use harness::{
    Event,
    agent::AcpAgent,
    core::agent::{End, FailureKind, KeptContext, StoppedBy, Usage},
    process::Allowed,
};
use harness_sim::conformance::agent::{Begun, Place, conforms, converses, execute};

use crate::{
    codex::{name, show},
    stage::within,
};

/// The start of each of them: two requests are answered, and the prompt is read. All requests are
/// kept in the file `asked`.
const BEGINS: &str = r#"#!/bin/sh
hear() { read -r line && echo "$line" >> ../asked; }
answer() { echo "{\"jsonrpc\":\"2.0\",\"id\":$1,\"result\":$2}"; }
update() { echo "{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s-1\",\"update\":$1}}"; }
say() { update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}"; }
hear
answer 1 '{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}'
hear
say 'TASK_COMPLETE, as I said in an earlier life'
answer 2 '{"sessionId":"s-1"}'
hear
"#;

/// Runs its prompt as a script, and gives the promise if it succeeded.
const RUNS_ITS_PROMPT: &str = r#"
sh "$HARNESS_PROMPT_FILE" < /dev/null
code=$?
[ $code -lt 128 ] || kill -KILL $$
[ $code -eq 0 ] || exit $code
echo
say TASK_COMPLETE
answer 4 '{"stopReason":"end_turn"}'
[ ! -e ../stays ] || exec sleep 100000
cat > /dev/null
"#;

fn program(folder: &Path, rest: &str) -> AcpAgent {
    let path = folder.join("agent");
    fs::write(&path, format!("{BEGINS}{rest}")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    AcpAgent::new(path.to_str().unwrap(), Allowed::base()).unwrap()
}

/// Returns the end, the events, and the requests and answers of the agent.
fn after(rest: &str) -> (End, Vec<String>, String) {
    let place = Place::new();
    let agent = program(place.path(), rest);
    run(&place, agent)
}

fn run(place: &Place, agent: AcpAgent) -> (End, Vec<String>, String) {
    run_in(place, agent, None)
}

fn run_in(place: &Place, agent: AcpAgent, kept: Option<KeptContext>) -> (End, Vec<String>, String) {
    let mut prompt = place.prompt("Do \"it\"");
    prompt.kept = kept;
    prompt.environment.push(("MY_API_KEY".into(), "very-secret-value".into()));
    let (end, events) = within(execute(agent, prompt, Begun::Nothing)).unwrap();
    let told = events.iter().filter_map(|told| show(&told.event)).collect();
    let asked = fs::read_to_string(place.path().join("asked")).unwrap_or_default();
    (end, told, asked)
}

pub(crate) fn acp_conforms() {
    let folder = tempfile::tempdir().unwrap();
    let agent = program(folder.path(), RUNS_ITS_PROMPT);
    within(conforms(|| agent.clone()));
    within(converses(agent));
}

pub(crate) fn a_turn_by_acp_is_told() {
    let (end, told, asked) = after(
        r#"
update '{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"Hm, very-sec"}}'
update '{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"ret-value!"}}'
say 'I will. TASK_COM'
say 'PLETE?'
echo noise
update '{"sessionUpdate":"tool_call","toolCallId":"t-1","name":"Write","kind":"edit","status":"pending","rawInput":{}}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"t-1","rawInput":{"text":"very-secret-value"}}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"t-1","status":"completed","rawOutput":"done"}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"t-1","status":"completed"}'
update '{"sessionUpdate":"tool_call_update","toolCallId":"t-2","kind":"execute","title":"ls","status":"failed"}'
update '{"sessionUpdate":"usage_update","used":900,"size":1000,"cost":{"amount":0.5,"currency":"USD"}}'
update '{"sessionUpdate":"of_tomorrow"}'
echo '{"jsonrpc":"2.0","id":7,"method":"fs/write_text_file","params":{}}'
hear
say 'All done. '
say 'very-secret-value'
answer 4 '{"stopReason":"end_turn","usage":{"inputTokens":30,"outputTokens":5,"totalTokens":35}}'
say 'I talk on.'
"#,
    );
    let usage = Usage { input_tokens: 30, output_tokens: 5, cost_usd: Some(0.5) };
    let final_text = "All done. [redacted:MY_API_KEY]".to_owned();
    assert_eq!(end, End::Finished { final_text, usage });
    let told = joined(&told);
    let expected = [
        "thinks Hm, [redacted:MY_API_KEY]!",
        "says I will. TASK_COMPLETE?",
        "begins Write {\"text\":\"[redacted:MY_API_KEY]\"}",
        "ends Write \"done\" well",
        "begins execute {\"title\":\"ls\"}",
        "ends execute null badly",
        "context 900 of 1000",
        "used 0 0 for 0.5",
        "says All done. [redacted:MY_API_KEY]",
        "used 30 5",
    ];
    assert_eq!(told, expected);
    let asked: Vec<serde_json::Value> =
        asked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(asked[0]["params"]["clientCapabilities"]["fs"]["writeTextFile"], false);
    assert_eq!(asked[0]["params"]["clientCapabilities"]["terminal"], false);
    assert_eq!(asked[1]["method"], "session/new");
    assert_eq!(asked[2]["params"]["prompt"][0]["text"], "Do \"it\"");
    assert_eq!((&asked[3]["id"], &asked[3]["error"]["code"]), (&7.into(), &(-32601).into()));
}

/// Joins pieces of text, because the cuts depend on possible starts of secrets.
fn joined(told: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for one in told {
        let word = one.split(' ').next().unwrap();
        match all.last_mut() {
            Some(last) if matches!(word, "says" | "thinks") && last.starts_with(word) => {
                last.push_str(&one[word.len() + 1..]);
            }
            _ => all.push(one.clone()),
        }
    }
    all
}

pub(crate) fn acp_agents_are_allowed_what_they_need() {
    let question = r#"
echo '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s-1","toolCall":{"toolCallId":"t","kind":"edit","title":"Write it","locations":[{"path":"PATH"}]},"options":[{"optionId":"A","kind":"allow_always"},{"optionId":"O","kind":"allow_once"},{"optionId":"N","kind":"reject_once"}]}}'
hear
answer 4 '{"stopReason":"REASON"}'
"#;
    for (path, reason, policy, option, expected) in [
        ("hello.txt", "end_turn", "", "O", "Finished"),
        ("/etc/passwd", "cancelled", "", "N", "Crashed"),
        ("/etc/passwd", "end_turn", "yolo", "O", "Finished"),
    ] {
        let place = Place::new();
        let rest = question.replace("PATH", path).replace("REASON", reason);
        let agent = program(place.path(), &rest);
        let agent = if policy == "yolo" { agent.allowing_anything() } else { agent };
        let (end, _, asked) = run(&place, agent);
        assert_eq!(name(&end), expected, "{end:?}");
        let answer: serde_json::Value =
            serde_json::from_str(asked.lines().last().unwrap()).unwrap();
        assert_eq!(answer["result"]["outcome"]["optionId"], option, "{path}");
        if let End::Failed { detail, .. } = end {
            assert!(detail.contains("Write it"), "{detail}");
        }
    }
}

/// Missing fields of a question are taken from earlier information about its call.
pub(crate) fn acp_agents_are_taken_at_their_word() {
    let question = r#"
update '{"sessionUpdate":"tool_call","toolCallId":"t","title":"Edit it","status":"pending",CALL}'
echo '{"jsonrpc":"2.0","id":"q","method":"session/request_permission","params":{"sessionId":"s-1","toolCall":{"toolCallId":"t","title":"Edit it"},"options":[{"optionId":"O","kind":"allow_once"},{"optionId":"N","kind":"reject_once"}]}}'
hear
answer 4 '{"stopReason":"end_turn"}'
"#;
    for (call, option) in [
        (r#""kind":"edit","locations":[{"path":"hello.txt"}]"#, "O"),
        (r#""kind":"edit","rawInput":{"file_path":"/etc/passwd"}"#, "N"),
        (r#""kind":"edit","rawInput":{}"#, "N"),
    ] {
        let (_, _, asked) = after(&question.replace("CALL", call));
        let answer: serde_json::Value =
            serde_json::from_str(asked.lines().last().unwrap()).unwrap();
        assert_eq!(answer["result"]["outcome"]["optionId"], option, "{call}");
    }
}

pub(crate) fn acp_agents_say_why_they_ended() {
    let refuses = |code: i32, message: &str| {
        format!(
            "echo '{{\"jsonrpc\":\"2.0\",\"id\":4,\"error\":{{\"code\":{code},\"message\":\"Internal error\",\
             \"data\":{{\"details\":\"{message}\"}}}}}}'; cat > /dev/null"
        )
    };
    for (rest, expected) in [
        ("answer 4 '{\"stopReason\":\"max_turn_requests\"}'".to_owned(), "CutShort"),
        ("answer 4 '{\"stopReason\":\"max_tokens\"}'".to_owned(), "OutOfContext"),
        ("answer 4 '{\"stopReason\":\"refusal\"}'".to_owned(), "Refused"),
        ("answer 4 '{\"stopReason\":\"cancelled\"}'".to_owned(), "Crashed"),
        ("answer 4 '{\"stopReason\":\"of_tomorrow\"}'".to_owned(), "Protocol"),
        ("answer 4 '{}'".to_owned(), "Protocol"),
        (
            "update '{\"sessionUpdate\":\"session_info_update\",\"_meta\":{\"codex\":\
             {\"threadStatus\":{\"type\":\"systemError\"}}}}'\n\
             say 'exceeded retry limit, last status: 429 Too Many Requests'\n\
             answer 4 '{\"stopReason\":\"end_turn\",\"usage\":null}'"
                .to_owned(),
            "Limited",
        ),
        (refuses(-32000, "who are you"), "Auth"),
        (refuses(-32603, "API Error: 401 no"), "Auth"),
        (refuses(-32603, "429 Too Many Requests"), "Limited"),
        (refuses(-32603, "prompt is too long"), "OutOfContext"),
        (refuses(-32603, "fetch failed"), "Network"),
        (refuses(-32603, "oh"), "Crashed"),
        ("exit 0".to_owned(), "Protocol"),
        ("echo Please log in first >&2; exit 41".to_owned(), "Auth"),
        ("exit 1".to_owned(), "Crashed"),
        // The program stays, so it is ended, and the turn counts.
        ("answer 4 '{\"stopReason\":\"end_turn\"}'; exec sleep 100000".to_owned(), "Finished"),
    ] {
        assert_eq!(name(&after(&rest).0), expected, "{rest}");
    }
    let place = Place::new();
    let other = AcpAgent::new(
        "sh -c 'read -r line; echo \"{\\\"id\\\":1,\\\"result\\\":{\\\"protocolVersion\\\":9}}\"; cat'",
        Allowed::base(),
    );
    let (end, ..) = run(&place, other.unwrap());
    assert!(matches!(end, End::Failed { kind: FailureKind::Protocol, .. }), "{end:?}");
}

pub(crate) fn a_session_of_acp_can_be_loaded_and_its_model_chosen() {
    let place = Place::new();
    let used = Usage { input_tokens: 9, output_tokens: 9, cost_usd: Some(0.25) };
    let rest = r#"
update '{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.75,"currency":"USD"}}'
answer 4 '{"stopReason":"end_turn"}'
"#;
    let kept = Some(KeptContext { session: "s-0".to_owned(), used });
    let (end, told, asked) = run_in(&place, program(place.path(), rest), kept);
    let usage = Usage { cost_usd: Some(0.5), ..Usage::default() };
    assert_eq!(end, End::Finished { final_text: String::new(), usage });
    // Earlier texts are not repeated.
    assert_eq!(told, ["context 1 of 2", "used 0 0 for 0.5"]);
    let load = asked.lines().nth(1).unwrap();
    assert!(load.contains("session/load") && load.contains("s-0"), "{load}");

    let place = Place::new();
    let agent = program(place.path(), "cat > /dev/null").model("big");
    let (end, _, _) = run(&place, agent);
    assert!(matches!(end, End::Failed { kind: FailureKind::Config, .. }), "{end:?}");
    let place = Place::new();
    let path = place.path().join("agent");
    let text = BEGINS.replace(r#"{"sessionId":"s-1"}"#, r#"{"sessionId":"s-1","models":{}}"#);
    let rest = "answer 3 '{}'; hear; answer 4 '{\"stopReason\":\"end_turn\"}'";
    let agent = program(place.path(), "").model("big");
    fs::write(path, format!("{text}{rest}")).unwrap();
    let (end, _, asked) = run(&place, agent);
    assert_eq!(name(&end), "Finished", "{end:?}");
    let chosen = asked.lines().nth(2).unwrap();
    assert!(chosen.contains("session/set_model") && chosen.contains("big"), "{chosen}");
}

pub(crate) fn a_silent_acp_agent_is_asked_to_stop() {
    let place = Place::new();
    let rest = r#"
hear
answer 4 '{"stopReason":"cancelled","usage":{"inputTokens":3,"outputTokens":1}}'
"#;
    let agent = program(place.path(), rest);
    let mut prompt = place.prompt("x");
    // The limit is longer than the start takes, because a program without a prompt cannot be asked.
    prompt.limits.stall = Some(std::time::Duration::from_secs(2));
    prompt.limits.grace = crate::stage::LONG;
    let (end, events) = within(execute(agent, prompt, Begun::Nothing)).unwrap();
    assert_eq!(end, End::Stopped { by: StoppedBy::Stall });
    let used = |event: &Event| show(event).as_deref() == Some("used 3 1");
    assert!(events.iter().any(|told| used(&told.event)), "what it used until then counts");
}

/// A message of a person becomes its own prompt, once the turn is over.
pub(crate) fn acp_agents_hear_what_people_say() {
    let place = Place::new();
    let rest = r#"
sh -c 'exec 9>"$HARNESS_ROLL"; echo here >&9'
read -r line < ../told
say TASK_COMPLETE
answer 4 '{"stopReason":"end_turn","usage":{"inputTokens":30,"outputTokens":5}}'
hear
say 'Left alone.'
answer 5 '{"stopReason":"end_turn","usage":{"inputTokens":7,"outputTokens":1}}'
"#;
    let agent = program(place.path(), rest);
    let begun = place.say("leave the parser alone");
    let (end, _) = within(execute(agent, place.prompt("x"), begun)).unwrap();
    let usage = Usage { input_tokens: 37, output_tokens: 6, cost_usd: None };
    assert_eq!(end, End::Finished { final_text: "TASK_COMPLETE\n\nLeft alone.".to_owned(), usage });
    let asked = fs::read_to_string(place.path().join("asked")).unwrap();
    let last: serde_json::Value = serde_json::from_str(asked.lines().last().unwrap()).unwrap();
    assert_eq!(last["params"]["prompt"][0]["text"], "leave the parser alone");
}

/// The cost of an agent with a price is computed from its tokens alone, and helpers do not count.
pub(crate) fn what_is_not_ours_is_not_counted() {
    let place = Place::new();
    let rest = r#"
update '{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.75,"currency":"USD"}}'
echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s-2","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"TASK_COMPLETE"}}}}'
answer 4 '{"stopReason":"end_turn","usage":{"inputTokens":30,"outputTokens":5}}'
"#;
    let (end, ..) = run(&place, program(place.path(), rest).priced());
    let usage = Usage { input_tokens: 30, output_tokens: 5, cost_usd: None };
    assert_eq!(end, End::Finished { final_text: String::new(), usage });
}

/// The caller then starts afresh, with a whole prompt.
pub(crate) fn a_session_of_acp_that_is_gone_is_named() {
    let place = Place::new();
    let agent = program(place.path(), "");
    let gone = "echo '{\"id\":2,\"error\":{\"code\":-32602,\"message\":\"no such session\"}}'; cat > /dev/null";
    let text = BEGINS.replace("answer 2 '{\"sessionId\":\"s-1\"}'", gone);
    fs::write(place.path().join("agent"), text).unwrap();
    let kept = KeptContext { session: "s-0".to_owned(), used: Usage::default() };
    let (end, _, asked) = run_in(&place, agent, Some(kept));
    let End::Failed { detail, .. } = end else { panic!("{end:?}") };
    assert_eq!(detail, "session/load failed: no such session");
    assert!(asked.lines().last().unwrap().contains("session/load"), "{asked}");
}

pub(crate) fn an_acp_agent_is_asked_to_stop_in_its_words() {
    let place = Place::new();
    let rest = r#"
exec 9> "$HARNESS_ROLL"; echo here >&9
hear
answer 4 '{"stopReason":"cancelled","usage":{"inputTokens":3,"outputTokens":1}}'
"#;
    let agent = program(place.path(), rest);
    let mut prompt = place.prompt("x");
    prompt.limits.grace = crate::stage::LONG;
    let begun = Begun::Cancel(place.watch());
    let (end, events) = within(execute(agent, prompt, begun)).unwrap();
    assert_eq!(end, End::Stopped { by: StoppedBy::User });
    let used = |event: &Event| show(event).as_deref() == Some("used 3 1");
    assert!(events.iter().any(|told| used(&told.event)), "what it used until then counts");
    let asked = fs::read_to_string(place.path().join("asked")).unwrap();
    assert!(asked.lines().last().unwrap().contains("session/cancel"), "{asked}");
}

/// A turn is interrupted only between tools, and the request to hand over is a turn of its own.
pub(crate) fn a_full_context_by_acp_is_handed_over() {
    let place = Place::new();
    let script = r#"
update '{"sessionUpdate":"tool_call","toolCallId":"t-1","name":"Write","kind":"edit","status":"in_progress"}'
update '{"sessionUpdate":"usage_update","used":80,"size":100}'
say 'I go on.'
update '{"sessionUpdate":"tool_call_update","toolCallId":"t-1","status":"completed"}'
hear
answer 4 '{"stopReason":"cancelled"}'
hear
say 'Handed over.'
answer 5 '{"stopReason":"end_turn"}'
cat > /dev/null
"#;
    let agent = program(place.path(), script).context_threshold(0.75);
    let (end, _, asked) = run(&place, agent);
    let End::Finished { final_text, .. } = end else { panic!("{end:?}") };
    assert!(final_text.ends_with("Handed over."), "{final_text}");
    let asked: Vec<serde_json::Value> =
        asked.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(asked[3]["method"], "session/cancel");
    assert_eq!(asked[4]["method"], "session/prompt");
    let words = asked[4]["params"]["prompt"][0]["text"].as_str().unwrap();
    assert!(words.contains("state/handoff.json"), "{words}");

    // Without a threshold nothing is asked.
    let script = "update '{\"sessionUpdate\":\"usage_update\",\"used\":99,\"size\":100}'\n\
        say done\nanswer 4 '{\"stopReason\":\"end_turn\"}'\ncat > /dev/null\n";
    let (_, _, asked) = run(&place, program(place.path(), script));
    assert!(!asked.lines().skip(5).any(|line| line.contains("session/cancel")), "{asked}");
}
