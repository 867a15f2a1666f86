//! Shortened lines of Claude Code, and their effects.

use harness_core::agent::{End, FailureKind, StoppedBy};

use super::{super::end::Signs, *};
use crate::process::JobExit;

const INIT: &str = r#"{"type":"system","subtype":"init","cwd":"/w","session_id":"s-1","tools":["Bash"],"model":"claude-x","permissionMode":"acceptEdits"}"#;
const HOOK: &str = r#"{"type":"system","subtype":"hook_response","hook_id":"h","message":"words, no object","error":{"any":1}}"#;
const SAYS: &str = r#"{"type":"assistant","message":{"id":"m1","role":"assistant","model":"claude-x","content":[{"type":"text","text":"I begin."}],"stop_reason":null,"usage":{"input_tokens":100,"cache_creation_input_tokens":20,"cache_read_input_tokens":3,"output_tokens":1}},"parent_tool_use_id":null,"session_id":"s-1"}"#;
const WRITES: &str = r#"{"type":"assistant","message":{"id":"m1","role":"assistant","model":"claude-x","content":[{"type":"tool_use","id":"t1","name":"Write","input":{"file_path":"/w/a"}}],"usage":{"input_tokens":100,"cache_creation_input_tokens":20,"cache_read_input_tokens":3,"output_tokens":1}},"parent_tool_use_id":null}"#;
const WROTE: &str = r#"{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"done"}]},"parent_tool_use_id":null,"tool_use_result":{"type":"create"}}"#;
const HELPER: &str = r#"{"type":"user","message":{"role":"user","content":"words alone"},"parent_tool_use_id":"t9"}"#;
const DONE: &str = r#"{"duration_ms":5,"stop_reason":"end_turn","total_cost_usd":0.5,"usage":{"input_tokens":1,"output_tokens":1},"modelUsage":{"claude-x":{"inputTokens":200,"outputTokens":40,"cacheReadInputTokens":3,"cacheCreationInputTokens":20,"costUSD":0.5,"contextWindow":1000}},"terminal_reason":"completed","is_error":false,"subtype":"success","api_error_status":null,"result":"All done.","type":"result","model_usage_since_last_result":{"claude-x":{"inputTokens":200,"outputTokens":40,"cacheReadInputTokens":3,"cacheCreationInputTokens":20,"costUSD":0.5}}}"#;

fn hear(lines: &[&str]) -> (ClaudeDialogue, Vec<AgentEvent>, Vec<Reply>) {
    let (mut dialogue, mut told, mut replies) =
        (ClaudeDialogue::new(Costs::Told, 0, None), Vec::new(), Vec::new());
    for line in lines {
        match parse(line.as_bytes()) {
            Some(message) => replies.extend(dialogue.take(message, |event| told.push(event))),
            None => dialogue.noise_lines += 1,
        }
    }
    (dialogue, told, replies)
}

fn end_with(lines: &[&str], exit: i32, stderr: &str) -> End {
    let (dialogue, _, _) = hear(lines);
    let crash = (exit != 0).then(|| End::Failed {
        kind: FailureKind::Crashed,
        detail: format!("exit code {exit}: {stderr}"),
    });
    Signs {
        outcome: dialogue.outcome().as_ref(),
        api_error: dialogue.api_error.as_deref(),
        limit_until: dialogue.limit_until,
        noise_lines: dialogue.noise_lines,
        missed_lines: dialogue.missed_lines,
        exit: JobExit::Code(exit),
        crash,
        usage: dialogue.account.all(),
    }
    .end()
}

fn usage(input_tokens: u64, output_tokens: u64, cost_usd: Option<f64>) -> Usage {
    Usage { input_tokens, output_tokens, cost_usd }
}

#[test]
fn a_turn_is_reported_while_it_runs() {
    let (dialogue, told, replies) = hear(&[INIT, HOOK, SAYS, WRITES, WROTE, HELPER, DONE]);
    let input = Some(json!({ "file_path": "/w/a" }));
    let name = || "Write".to_owned();
    let expected = [
        AgentEvent::Session("s-1".to_owned()),
        AgentEvent::Usage(usage(123, 1, None)),
        AgentEvent::Context { used_tokens: 124, window_tokens: 200_000 },
        AgentEvent::Text("I begin.".to_owned()),
        AgentEvent::ToolStart { name: name(), input },
        AgentEvent::ToolEnd { name: name(), result: Some(json!("done")), is_error: false },
        AgentEvent::Usage(usage(100, 39, Some(0.5))),
        AgentEvent::Context { used_tokens: 124, window_tokens: 1000 },
    ];
    assert_eq!(told, expected);
    assert_eq!(replies, [Reply::HangUp]);
    assert_eq!((dialogue.noise_lines, dialogue.window), (0, 1000));
}

#[test]
fn a_known_window_is_reported_with_every_message() {
    let mut dialogue = ClaudeDialogue::new(Costs::Told, 500, None);
    let mut told = Vec::new();
    for line in [SAYS, WRITES] {
        dialogue.take(parse(line.as_bytes()).unwrap(), |event| told.push(event));
    }
    let contexts = told.iter().filter(|event| matches!(event, AgentEvent::Context { .. }));
    let context = AgentEvent::Context { used_tokens: 124, window_tokens: 500 };
    assert_eq!(contexts.collect::<Vec<_>>(), [&context]);
}

#[test]
fn tools_at_work_are_known() {
    let (dialogue, _, _) = hear(&[SAYS, WRITES]);
    assert_eq!(dialogue.tools.len(), 1);
    let (dialogue, _, _) = hear(&[SAYS, WRITES, WROTE]);
    assert!(dialogue.tools.is_empty());
}

#[test]
fn only_all_three_signs_make_a_proper_end() {
    let finished =
        End::Finished { final_text: "All done.".to_owned(), usage: usage(223, 40, Some(0.5)) };
    assert_eq!(end_with(&[SAYS, WRITES, DONE], 0, ""), finished);
    let crashed = end_with(&[DONE], 1, "oops");
    assert!(matches!(crashed, End::Failed { kind: FailureKind::Crashed, .. }), "{crashed:?}");
    for (from, to) in [
        (r#""is_error":false"#, r#""is_error":true"#),
        ("completed", "hook_stopped"),
        ("completed", "aborted_tools"),
        (r#""terminal_reason":"completed","#, ""),
    ] {
        let end = end_with(&[&DONE.replace(from, to)], 0, "");
        assert!(!matches!(end, End::Finished { .. }), "{from} -> {to}: {end:?}");
    }
    let empty = DONE.replace("All done.", "");
    assert!(
        matches!(end_with(&[&empty], 0, ""), End::Finished { final_text, .. } if final_text.is_empty())
    );
}

/// Returns the end for a result with these fields.
fn ends(fields: &str) -> End {
    end_with(&[INIT, &format!(r#"{{"type":"result",{fields}}}"#)], 1, "")
}

fn failure(end: End) -> FailureKind {
    match end {
        End::Failed { kind, .. } => kind,
        other => panic!("{other:?}"),
    }
}

#[test]
fn limits_of_its_own_are_no_failures() {
    let turns = r#""subtype":"error_max_turns","is_error":true,"terminal_reason":"max_turns","errors":["Reached maximum number of turns (1)"]"#;
    let detail = "Reached maximum number of turns (1)".to_owned();
    assert_eq!(ends(turns), End::CutShort { detail });
    let money =
        r#""subtype":"error_max_budget_usd","is_error":true,"terminal_reason":"budget_exhausted""#;
    assert_eq!(ends(money), End::Stopped { by: StoppedBy::Budget });
    let long = r#""subtype":"success","is_error":true,"terminal_reason":"prompt_too_long","api_error_status":400,"result":"Prompt is too long""#;
    assert_eq!(ends(long), End::OutOfContext);
    let refused = r#""subtype":"success","is_error":true,"terminal_reason":"api_error","stop_reason":"refusal","result":"no""#;
    assert_eq!(ends(refused), End::Refused);
}

#[test]
fn errors_of_the_api_are_distinguished() {
    let error = |status: &str| {
        ends(&format!(
            r#""subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":{status},"result":"API Error: {status}""#
        ))
    };
    for (status, kind) in [
        ("401", FailureKind::Auth),
        ("403", FailureKind::Auth),
        ("404", FailureKind::Config),
        ("400", FailureKind::Protocol),
        ("500", FailureKind::Network),
        ("529", FailureKind::Network),
        ("null", FailureKind::Network),
    ] {
        assert_eq!(failure(error(status)), kind, "{status}");
    }
    assert_eq!(error("413"), End::OutOfContext);
    assert_eq!(error("429"), End::Limited { until: None });
}

/// There is no status if nothing was asked, so the kind of the error decides.
#[test]
fn a_missing_sign_in_is_reported() {
    let says = r#"{"type":"assistant","message":{"id":"x","model":"<synthetic>","content":[{"type":"text","text":"Not logged in"}],"usage":{"input_tokens":0}},"error":"authentication_failed"}"#;
    let result = r#"{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":null,"result":"Not logged in"}"#;
    assert_eq!(failure(end_with(&[says, result], 1, "")), FailureKind::Auth);
}

#[test]
fn the_reset_of_a_limit_is_kept() {
    let allowed = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":5}}"#;
    let limit = r#"{"type":"rate_limit_event","rate_limit_info":{"status":"rejected","resetsAt":1893553445,"rateLimitType":"five_hour"}}"#;
    let result = r#"{"type":"result","subtype":"success","is_error":true,"terminal_reason":"api_error","api_error_status":429,"result":"limit"}"#;
    let until = Some(Timestamp::from_seconds(1_893_553_445));
    assert_eq!(end_with(&[allowed, result], 1, ""), End::Limited { until: None });
    assert_eq!(end_with(&[limit, result], 1, ""), End::Limited { until });
    let late = limit.replace("1893553445", "1893553445000");
    assert_eq!(end_with(&[&late, result], 1, ""), End::Limited { until });
    let (_, told, _) = hear(&[allowed, limit]);
    assert_eq!(told, [AgentEvent::Limit { until }]);
    // A limit that ended before the result does not count.
    assert!(matches!(end_with(&[limit, DONE], 0, ""), End::Finished { .. }));
}

#[test]
fn without_a_result_the_exit_tells() {
    for (exit, stderr, kind) in [
        (0, "", FailureKind::Protocol),
        (1, "boom", FailureKind::Crashed),
        (127, "env: node: not found", FailureKind::NotFound),
        (126, "", FailureKind::Config),
        (1, "error: unknown option '--nonsense'", FailureKind::Config),
        (1, "--dangerously-skip-permissions cannot be used with root", FailureKind::Config),
    ] {
        assert_eq!(failure(end_with(&[INIT, SAYS], exit, stderr)), kind, "{exit} {stderr}");
    }
}

#[test]
fn strange_lines_are_borne() {
    let strange = ["", "npm warn", "{", "[]", r#"{"type":"assistant"}"#, r#"{"type":7}"#];
    let (dialogue, told, _) = hear(&strange);
    assert_eq!((dialogue.noise_lines, told.len()), (strange.len() as u64, 0));
    let new = [r#"{"type":"something_new","x":1}"#, r#"{"type":"system","subtype":"new"}"#];
    assert_eq!(hear(&new).0.noise_lines, 0);
    let End::Failed { kind: FailureKind::Protocol, detail } = end_with(&["npm warn"], 0, "") else {
        panic!("no result is no end");
    };
    assert!(detail.contains("1 lines"), "{detail}");
    let all: Vec<&str> = strange.into_iter().chain([DONE]).collect();
    assert!(matches!(end_with(&all, 0, ""), End::Finished { .. }));
}

#[test]
fn its_questions_are_answered() {
    let ask = r#"{"type":"control_request","request_id":"r7","request":{"subtype":"can_use_tool","tool_name":"WebFetch","input":{"url":"x"}}}"#;
    let other = r#"{"type":"control_request","request_id":"r8","request":{"subtype":"hook_callback","callback_id":"c"}}"#;
    let (_, _, replies) = hear(&[ask, other]);
    let [Reply::Say(no), Reply::Say(error)] = &replies[..] else { panic!("{replies:?}") };
    assert_eq!(no["response"]["request_id"], "r7");
    assert_eq!(no["response"]["response"]["behavior"], "deny");
    assert_eq!(error["response"]["subtype"], "error");
}

#[test]
fn long_answers_of_tools_are_shortened() {
    let long = shortened(Value::String("ü".repeat(RESULT_BYTES_MAX)));
    let text = long.as_str().unwrap();
    assert!(text.len() < RESULT_BYTES_MAX + 64 && text.ends_with("bytes cut]"));
}

#[test]
fn it_is_asked_to_hand_over_once_before_its_context_is_full() {
    for (window, replies) in [(124, 1), (165, 1), (166, 0), (0, 0)] {
        let mut dialogue = ClaudeDialogue::new(Costs::Told, window, Some(0.75));
        let mut asked = Vec::new();
        for line in [SAYS, WRITES, SAYS] {
            asked.extend(dialogue.take(parse(line.as_bytes()).unwrap(), drop));
        }
        assert_eq!(asked.len(), replies, "{window}: {asked:?}");
        let words = |reply: &Reply| matches!(reply, Reply::Say(v) if v["type"] == "user");
        assert!(asked.iter().all(words), "{asked:?}");
    }
}

#[test]
fn a_context_of_unknown_size_is_as_large_as_is_usual() {
    for (model, tokens, replies) in [
        ("claude-x", "149000", 0),
        ("claude-x", "150000", 1),
        ("claude-x[1m]", "150000", 0),
        ("claude-x[1m]", "750000", 1),
    ] {
        let mut dialogue = ClaudeDialogue::new(Costs::Told, 0, Some(0.75));
        let init = INIT.replace("claude-x", model);
        let says = SAYS.replace(":100,", &format!(":{tokens},"));
        let mut asked = Vec::new();
        for line in [init, says] {
            asked.extend(dialogue.take(parse(line.as_bytes()).unwrap(), drop));
        }
        assert_eq!(asked.len(), replies, "{model} {tokens}");
        assert_eq!(dialogue.window, 0, "it was not told");
    }
}

#[test]
fn a_turn_is_over_when_nothing_is_owed() {
    assert_eq!(hear(&[INIT, SAYS]).0.standing(), Standing::Open);
    assert_eq!(hear(&[INIT, SAYS, DONE]).0.standing(), Standing::Over);
    assert_eq!(
        hear(&[DONE, &SAYS.replace("null,\"session_id", "\"t9\",\"session_id")]).0.standing(),
        Standing::Over
    );
    // If it is asked to hand over in the middle of a turn, it answers in that turn or in the next.
    let mut dialogue = ClaudeDialogue::new(Costs::Told, 124, Some(0.75));
    let mut standing = |line: &str| {
        dialogue.take(parse(line.as_bytes()).unwrap(), drop);
        dialogue.standing()
    };
    for (line, expected) in [
        (SAYS, Standing::Open),
        (DONE, Standing::Answered),
        (INIT, Standing::Open),
        (DONE, Standing::Over),
    ] {
        assert_eq!(standing(line), expected, "{line}");
    }
}

#[test]
fn the_words_of_an_improper_turn_promise_nothing() {
    let cut = r#"{"type":"result","subtype":"error_max_turns","is_error":true,"terminal_reason":"max_turns","result":"I will say TASK_COMPLETE when done"}"#;
    let end = end_with(&[cut, DONE], 0, "");
    let End::Finished { final_text, .. } = end else { panic!("{end:?}") };
    assert_eq!(final_text, "All done.");
}

/// A message that comes too late for its turn is answered in another one. A promise in either
/// counts.
#[test]
fn the_final_text_is_that_of_all_turns() {
    let end = end_with(&[DONE, &DONE.replace("All done.", "Handed over.")], 0, "");
    let End::Finished { final_text, usage } = end else { panic!("{end:?}") };
    assert_eq!(final_text, "All done.\n\nHanded over.");
    assert_eq!((usage.input_tokens, usage.cost_usd), (446, Some(1.0)));
}

#[test]
fn a_turn_in_which_no_model_was_asked_costs_nothing() {
    // The sums of the session are repeated with it.
    let since = r#""model_usage_since_last_result":{"#;
    let (head, _) = DONE.split_once(since).unwrap();
    let nothing = format!("{head}{since}}}}}");
    let (dialogue, _, _) = hear(&[INIT, DONE, &nothing]);
    assert_eq!(dialogue.account.all().cost_usd, Some(0.5));
}
