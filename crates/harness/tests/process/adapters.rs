//! The adapters that need no model.

use harness::{
    Event,
    agent::{CommandAgent, Prompt, ShellAgent},
    core::{
        Timestamp,
        agent::{End, FailureKind, Usage},
    },
    process::Allowed,
};
use harness_sim::conformance::agent::{Begun, Place, conforms, execute};

use crate::stage::{LONG, within};

fn command(words: &str) -> CommandAgent {
    CommandAgent::new(words, Allowed::base()).unwrap()
}

fn end_of(words: &str, prompt: Prompt) -> End {
    within(async { execute(command(words), prompt, Begun::Nothing).await.unwrap().0 })
}

fn said(words: &str, prompt: Prompt) -> String {
    match end_of(words, prompt) {
        End::Finished { final_text, .. } => final_text,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn shell_conforms() {
    within(conforms(|| ShellAgent));
}

pub(crate) fn command_conforms() {
    within(conforms(|| command("sh {prompt_file}")));
}

pub(crate) fn a_script_needs_instructions() {
    let place = Place::new();
    let prompt = place.prompt("exit 0").instructions(None);
    let end = within(async { execute(ShellAgent, prompt, Begun::Nothing).await.unwrap().0 });
    assert!(matches!(end, End::Failed { kind: FailureKind::Config, .. }), "{end:?}");
    // The options `-e` and `-u` apply.
    for script in ["false; exit 0", "echo $NO_SUCH_VARIABLE; exit 0"] {
        let place = Place::new();
        let prompt = place.prompt(script);
        let end = within(async { execute(ShellAgent, prompt, Begun::Nothing).await.unwrap().0 });
        assert!(matches!(end, End::Failed { kind: FailureKind::Crashed, .. }), "{end:?}");
    }
}

pub(crate) fn a_command_gets_its_prompt() {
    let place = Place::new();
    let text = "do what\nI say ü";
    // The output is in capitals, because an exact copy of the prompt is removed.
    let (loud, said_loudly) = ("tr a-z A-Z", "DO WHAT\nI SAY ü");
    assert_eq!(said(loud, place.prompt(text)), said_loudly);
    let file = format!("sh -c '{loud} < \"$HARNESS_PROMPT_FILE\"'");
    assert_eq!(said(&file, place.prompt(text)), said_loudly);
    let named = format!("sh -c 'cat; {loud} < \"$0\"' {{prompt_file}}");
    assert_eq!(said(&named, place.prompt(text)), said_loudly);
    assert_eq!(
        said("sh -c 'echo before; cat; echo after'", place.prompt(text)).trim(),
        "before\n\nafter"
    );
}

pub(crate) fn a_command_sees_no_more_than_it_may() {
    let place = Place::new();
    let mut prompt = place.prompt("env | sort; echo $HARNESS_TOKEN | rev");
    for (name, value) in [
        ("LD_PRELOAD", ""),
        ("DATABASE_PASSWORD", "12345678"),
        ("HARNESS_TOKEN", "abcdefgh-secret"),
    ] {
        prompt.environment.push((name.into(), value.into()));
    }
    let text = said("sh {prompt_file}", prompt);
    assert!(!text.contains("LD_PRELOAD") && !text.contains("DATABASE"), "{text}");
    assert!(text.contains("HARNESS_TOKEN=[redacted:HARNESS_TOKEN]"), "{text}");
    assert!(text.contains("terces-hgfedcba"), "{text}");
    let transcript = place.path().join("state/transcripts/execution-1.log");
    assert!(!std::fs::read_to_string(transcript).unwrap().contains("abcdefgh-secret"));
}

pub(crate) fn a_command_tells_events() {
    let place = Place::new();
    let script = r#"
        tell() { echo "$1" >> "$HARNESS_EVENTS"; }
        tell '{"type":"usage","input_tokens":10,"output_tokens":2,"cost_usd":0.5}'
        tell '{"type":"nonsense"}'
        tell 'no JSON'
        tell ''
        tell '{"type":"checkpoint","step":1,"total":2,"description":"half"}'
        tell '{"type":"text","text":"hello"}'
        tell '{"type":"limit"}'
        tell '{"type":"text","text":"on"}'
        printf '{"type":"usage","input_tokens":1}' >> "$HARNESS_EVENTS"
    "#;
    let prompt = place.prompt(script);
    let (end, events) =
        within(execute(command("sh {prompt_file}"), prompt, Begun::Nothing)).unwrap();
    let usage = Usage { input_tokens: 11, output_tokens: 2, cost_usd: Some(0.5) };
    assert_eq!(end, End::Finished { final_text: String::new(), usage });
    let told: Vec<String> = events
        .iter()
        .filter_map(|envelope| match &envelope.event {
            Event::AgentText { content, .. } => Some(content.clone()),
            Event::AgentUsage { input_tokens, .. } => Some(input_tokens.to_string()),
            _ => None,
        })
        .collect();
    assert_eq!(told, ["10", "hello", "on", "1"]);
}

pub(crate) fn a_command_says_why_it_ended() {
    let until = Timestamp::parse("2030-01-02T03:04:05Z").unwrap();
    for (line, exit, expected) in [
        (r#"{"type":"end","reason":"out_of_context"}"#, 0, End::OutOfContext),
        (r#"{"type":"end","reason":"refused"}"#, 1, End::Refused),
        (r#"{"type":"limit"}"#, 1, End::Limited { until: None }),
        (r#"{"type":"limit"}"#, 0, End::Limited { until: None }),
        (
            r#"{"type":"limit","until":"2030-01-02T03:04:05Z"}"#,
            1,
            End::Limited { until: Some(until) },
        ),
    ] {
        let place = Place::new();
        let prompt = place.prompt(&format!("echo '{line}' >> $HARNESS_EVENTS; exit {exit}"));
        assert_eq!(end_of("sh {prompt_file}", prompt), expected, "{line}");
    }
    for (reason, kind) in [("auth", FailureKind::Auth), ("network", FailureKind::Network)] {
        let place = Place::new();
        let line = format!(r#"{{"type":"end","reason":"{reason}"}}"#);
        let end =
            end_of("sh {prompt_file}", place.prompt(&format!("echo '{line}' >> $HARNESS_EVENTS")));
        assert!(matches!(end, End::Failed { kind: found, .. } if found == kind), "{end:?}");
    }
}

pub(crate) fn commands_and_scripts_work_on_whatever_people_say() {
    let script = r#"exec 9>"$HARNESS_ROLL"; echo here >&9; exec 9>&-; read -r line < ../told; echo TASK_COMPLETE"#;
    let is_finished = |end: &End| matches!(end, End::Finished { .. });
    let place = Place::new();
    let begun = place.say("hurry");
    let (end, _) =
        within(execute(command("sh {prompt_file}"), place.prompt(script), begun)).unwrap();
    assert!(is_finished(&end), "{end:?}");
    let place = Place::new();
    let begun = place.say("hurry");
    let (end, _) = within(execute(ShellAgent, place.prompt(script), begun)).unwrap();
    assert!(is_finished(&end), "{end:?}");
}

pub(crate) fn a_missing_program_is_said() {
    let place = Place::new();
    let end = end_of("no-such-agent --now", place.prompt("x"));
    let End::Failed { kind: FailureKind::NotFound, detail } = end else { panic!("{end:?}") };
    assert!(detail.contains("no-such-agent"), "{detail}");
    let end = end_of("sh -c 'echo there is no nowhere >&2; exit 127'", place.prompt("x"));
    let End::Failed { kind: FailureKind::NotFound, detail } = end else { panic!("{end:?}") };
    assert!(detail.ends_with("exit code 127: there is no nowhere"), "{detail}");
    // A kept promise takes precedence over a limit.
    let script = r#"echo '{"type":"limit"}' >> "$HARNESS_EVENTS"; echo TASK_COMPLETE"#;
    assert_eq!(said("sh {prompt_file}", place.prompt(script)), "TASK_COMPLETE\n");
}

pub(crate) fn the_final_text_is_the_end_of_the_output() {
    let place = Place::new();
    let mut prompt = place.prompt("yes 0123456789 | head -c 3000000; echo TASK_COMPLETE");
    prompt.limits.timeout = Some(LONG);
    let text = said("sh {prompt_file}", prompt);
    assert_eq!(text.len(), 1024 * 1024);
    assert!(text.ends_with("TASK_COMPLETE\n"));
    let transcript = place.path().join("state/transcripts/execution-1.log");
    assert_eq!(std::fs::metadata(transcript).unwrap().len(), 3_000_014);
}
