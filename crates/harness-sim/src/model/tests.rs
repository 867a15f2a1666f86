use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use super::*;

/// Returns the whole answer to this body, including the head, until the end of the connection.
fn ask(model: &Model, path: &str, body: &str) -> String {
    let address = model.url().replace("http://", "");
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(stream, "POST {path} HTTP/1.1\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    // A cut connection may also be reported as an error.
    let _ = stream.read_to_string(&mut answer);
    answer
}

const STREAMED: &str = r#"{"stream":true,"tools":[{"name":"Bash"}],"model":"m"}"#;

#[test]
fn steps_are_played_in_order_and_counted() {
    let steps = [
        Step::shell("ls"),
        Step::Status {
            status: 429,
            message: "slow".into(),
            headers: vec![("retry-after", "1".into())],
        },
        Step::cut("Ha"),
        Step::text("TASK_COMPLETE"),
    ];
    let model = Model::start(Script::new(steps)).unwrap();
    let tool = ask(&model, "/v1/messages?beta=true", STREAMED);
    assert!(
        tool.contains(r#""name":"Bash""#) && tool.contains(r#"{\"command\":\"ls\"}"#),
        "{tool}"
    );
    assert!(tool.ends_with("0\r\n\r\n"), "{tool}");
    let limit = ask(&model, "/v1/messages", STREAMED);
    assert!(limit.starts_with("HTTP/1.1 429") && limit.contains("retry-after: 1"), "{limit}");
    let cut = ask(&model, "/v1/messages", STREAMED);
    assert!(cut.contains("Ha") && !cut.contains("message_stop"), "{cut}");
    let aside = ask(&model, "/v1/messages", r#"{"model":"m"}"#);
    assert!(aside.contains(r#""text":"ok""#), "{aside}");
    let whole = ask(&model, "/v1/messages", &STREAMED.replace("true", "false"));
    assert!(whole.contains("TASK_COMPLETE") && whole.contains(r#""stop_reason":"end_turn""#));
    let over = ask(&model, "/v1/messages", STREAMED);
    assert!(over.starts_with("HTTP/1.1 400") && over.contains("no more steps"), "{over}");
    let served = model.served();
    assert_eq!((served.input_tokens, served.output_tokens), (4000, 151));
    assert_eq!(served.bodies.len(), 5);
    assert!(model.has_played(5, Duration::ZERO) && !model.has_played(6, Duration::ZERO));
}

#[test]
fn lanes_are_chosen_by_what_is_asked() {
    let script = Script::new([Step::text("main")]).when("again", [Step::text("lane")]).repeating();
    let model = Model::start(script).unwrap();
    for _ in 0..2 {
        assert!(ask(&model, "/v1/messages", STREAMED).contains("main"));
        let again = STREAMED.replace(r#""m""#, r#""again""#);
        assert!(ask(&model, "/v1/messages", &again).contains("lane"));
    }
    assert!(ask(&model, "/elsewhere", "{}").starts_with("HTTP/1.1 404"));
}

/// For every API: words are streamed and counted, errors have a status, and a cut has no end.
#[test]
fn every_dialect_tells_the_same_story() {
    let asked = r#"{"stream":true,"tools":[{"type":"function","name":"t"}],"model":"m"}"#;
    for (path, shell, last) in [
        ("/v1/messages", r#"{\"command\":\"ls\"}"#, "message_stop"),
        ("/v1/responses", r#"{\"cmd\":\"ls\"}"#, "response.completed"),
        ("/v1/chat/completions", r#"{\"command\":\"ls\",\"is_background\":false}"#, "[DONE]"),
    ] {
        let steps = [Step::shell("ls"), Step::cut("Ha"), Step::TooLong, Step::text("Done.")];
        let model = Model::start(Script::new(steps)).unwrap();
        let tool = ask(&model, path, asked);
        assert!(tool.contains(shell) && tool.contains(last), "{tool}");
        let cut = ask(&model, path, asked);
        assert!(cut.contains("Ha") && !cut.contains(last), "{cut}");
        let long = ask(&model, path, asked);
        assert!(long.starts_with("HTTP/1.1 400"), "{long}");
        let whole = ask(&model, path, &asked.replace("true", "false"));
        assert!(whole.contains(r#""Done.""#) && whole.contains(r#""model":"m""#), "{whole}");
        let aside = ask(&model, path, r#"{"model":"m"}"#);
        assert!(aside.contains(r#""ok""#), "{aside}");
        assert_eq!(model.served().bodies.len(), 4);
        let served = model.served();
        let of_the_cut = if path == "/v1/messages" { (1000, 1) } else { (0, 0) };
        // The script answered twice, and one request took no step.
        let expected = (3000 + of_the_cut.0, 150 + of_the_cut.1);
        assert_eq!((served.input_tokens, served.output_tokens), expected, "{path}");
    }
}
