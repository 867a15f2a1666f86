//! The schemas in `schema/` describe what the program reads and writes.

use std::fs;

use harness_core::{Timestamp, format};
use regex::Regex;
use serde_json::{Value, json};

use crate::{
    environment::TestEnvironment,
    page::{Page, repository},
};

fn schema(name: &str) -> Value {
    let path = repository().join("schema").join(format!("{name}.schema.json"));
    let text = fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Returns why a value does not fit the schema. It knows the keywords that the schemas use.
fn problem(schema: &Value, value: &Value) -> Option<String> {
    let wrong = |why: &str| Some(format!("{why}: {value}"));
    let of_kind = |kind: &str| match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        other => panic!("unknown type {other}"),
    };
    let fits = match &schema["type"] {
        Value::Null => true,
        Value::String(kind) => of_kind(kind),
        kinds => kinds.as_array().unwrap().iter().any(|kind| of_kind(kind.as_str().unwrap())),
    };
    if !fits {
        return wrong(&format!("not of type {}", schema["type"]));
    }
    if schema["enum"].as_array().is_some_and(|allowed| !allowed.contains(value)) {
        return wrong("not one of the words");
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return wrong("not the constant");
    }
    if schema.get("not").is_some_and(|not| problem(not, value).is_none()) {
        return wrong("excluded");
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !Regex::new(pattern).unwrap().is_match(text)
    {
        return wrong(&format!("does not match {pattern}"));
    }
    if schema["format"] == "date-time"
        && value.as_str().is_some_and(|text| Timestamp::parse(text).is_err())
    {
        return wrong("not a time");
    }
    let of_size = |size: usize| {
        schema["minProperties"].as_u64().is_none_or(|least| size as u64 >= least)
            && schema["maxProperties"].as_u64().is_none_or(|most| size as u64 <= most)
    };
    if value.as_object().is_some_and(|fields| !of_size(fields.len())) {
        return wrong("too few or too many fields");
    }
    if let (Some(least), Some(number)) = (schema["minimum"].as_f64(), value.as_f64())
        && number < least
    {
        return wrong("too small");
    }
    if let (Some(most), Some(number)) = (schema["maximum"].as_f64(), value.as_f64())
        && number > most
    {
        return wrong("too large");
    }
    if let Some(choices) = schema["oneOf"].as_array() {
        let fitting = choices.iter().filter(|choice| problem(choice, value).is_none()).count();
        if fitting != 1 {
            return wrong(&format!("fits {fitting} of the alternatives"));
        }
    }
    let items = value.as_array().into_iter().flatten();
    let of_items = items.map(|item| problem(&schema["items"], item)).find_map(|found| found);
    of_items.or_else(|| problem_of_fields(schema, value))
}

fn problem_of_fields(schema: &Value, value: &Value) -> Option<String> {
    let fields = value.as_object()?;
    for name in schema["required"].as_array().into_iter().flatten() {
        if !fields.contains_key(name.as_str().unwrap()) {
            return Some(format!("{name} is missing: {value}"));
        }
    }
    fields.iter().find_map(|(name, value)| match schema["properties"].get(name) {
        Some(known) => problem(known, value).map(|why| format!("{name}: {why}")),
        None => match &schema["additionalProperties"] {
            Value::Bool(false) => Some(format!("unknown key {name}")),
            Value::Object(_) => problem(&schema["additionalProperties"], value),
            _ => None,
        },
    })
}

#[track_caller]
fn assert_fits(schema: &Value, text: &str) {
    let value = serde_json::from_str(text).unwrap_or_else(|why| panic!("{why}: {text}"));
    assert_eq!(problem(schema, &value), None);
}

#[test]
fn the_examples_of_the_protocol_fit_their_schemas() {
    let page = Page::open("PROTOCOL.md");
    assert_fits(&schema("ledger"), &page.block("json ledger"));
    assert_fits(&schema("receipt"), &page.block("json receipt"));
    let plan = page.block("md plan");
    assert_fits(&schema("plan"), harness_core::plan::extract(&plan).unwrap());
}

#[test]
fn what_a_run_writes_fits_the_schemas() {
    let env = TestEnvironment::with_git();
    env.run(["init"]).success();
    env.run(["add", "One", "--validate", "test -f one", "--instructions", "touch one"]).success();
    env.run(["add", "Two", "--validate", "false", "--max-attempts", "1", "--instructions", "true"])
        .success();
    env.run(["run", "--agent", "shell"]).code(4);
    assert_fits(&schema("ledger"), &env.read("harness-tasks.json"));
    assert_fits(&schema("receipt"), &env.read(".harness/receipts/task-001.1.json"));
    let runs = fs::read_dir(env.root().join(".harness/runs")).unwrap();
    let events: Vec<String> =
        runs.map(|entry| fs::read_to_string(entry.unwrap().path()).unwrap()).collect();
    let (events, schema) = (events.concat(), schema("events"));
    assert!(events.lines().count() > 5, "{events}");
    events.lines().for_each(|line| assert_fits(&schema, line));
}

/// Returns the path of every property below `schema`, as JSON pointers into the example.
fn pointers(schema: &Value, at: &str, found: &mut Vec<(String, Value)>) {
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}/{name}");
        found.push((at.clone(), property.clone()));
        pointers(property, &at, found);
        pointers(&property["items"], &format!("{at}/0"), found);
    }
}

/// Puts a value at a pointer. Returns `None` if the example has no such place.
fn put(document: &Value, pointer: &str, value: Value) -> Option<Value> {
    let mut document = document.clone();
    let (above, name) = pointer.rsplit_once('/')?;
    document.pointer_mut(above)?.as_object_mut()?.insert(name.to_owned(), value);
    Some(document)
}

/// What the schema of the ledger refuses, the reader refuses or treats as absent.
#[test]
fn the_reader_and_the_schema_of_the_ledger_agree() {
    let schema = schema("ledger");
    let example: Value =
        serde_json::from_str(&Page::open("PROTOCOL.md").block("json ledger")).unwrap();
    // The second task has nearly every field, so it stands at the place that the pointers name.
    let mut example = example;
    example["tasks"].as_array_mut().unwrap().remove(0);
    example["tasks"][0]["depends_on"] = json!([]);
    let read = |document: &Value| format::read_ledger(document.to_string().as_bytes());
    read(&example).unwrap();
    let mut properties = Vec::new();
    pointers(&schema, "", &mut properties);
    let mut tried = 0;
    let mut disagree = Vec::new();
    for (pointer, property) in properties {
        for value in [json!(true), json!(7), json!("x y"), json!([]), json!({}), json!(null)] {
            let Some(changed) = put(&example, &pointer, value.clone()) else { continue };
            // An object with a wrong field may be treated as absent as a whole.
            let absent = [&*pointer, pointer.rsplit_once('/').unwrap().0];
            let absent = absent.map(|pointer| put(&example, pointer, Value::Null));
            tried += 1;
            match (problem(&property, &value), read(&changed)) {
                (None, Ok(_)) | (Some(_), Err(_)) => {}
                (Some(why), Ok(ledger)) => {
                    let text = |ledger| format::Document::new(&ledger).text();
                    let absent = absent.iter().flatten().filter_map(|absent| read(absent).ok());
                    let read = text(ledger);
                    let same = absent.into_iter().any(|absent| text(absent) == read);
                    if !same {
                        disagree.push(format!("{pointer}: the reader uses {value}: {why}"));
                    }
                }
                (None, Err(why)) => {
                    disagree.push(format!("{pointer}: the schema allows {value}: {why}"));
                }
            }
        }
    }
    assert!(disagree.is_empty(), "{}", disagree.join("\n"));
    assert!(tried > 300, "{tried}");
}

/// Every key of the reference can be set by the variable that stands beside it, to the example.
#[test]
fn every_variable_of_the_reference_sets_its_key() {
    let mut env = TestEnvironment::new();
    let rows = Page::open("docs/configuration.md").rows("## Variables of keys");
    // The examples name an agent of their own.
    env.write("harness.toml", "[agents.mine]\ncommand = 'my-agent'\n");
    for row in &rows {
        env = env.variable(row[0].trim_matches('`'), row[3].trim_matches('`'));
    }
    let values = env.run(["config", "--json"]).success().json()["values"].clone();
    for row in &rows {
        let shown = &values[row[1].trim_matches('`')];
        assert_eq!(shown["origin"]["layer"], "variable", "{row:?}: {shown}");
    }
    let keys = values.as_object().unwrap().keys().filter(|key| !key.starts_with("agents."));
    assert_eq!(keys.count(), rows.len());
}

#[test]
fn the_reference_names_every_key_of_an_agent() {
    let page = Page::open("docs/configuration.md");
    let schema = schema("harness");
    let named = page.named("## `[agents.NAME]`");
    for (key, _) in schema["$defs"]["Agent"]["properties"].as_object().unwrap() {
        assert!(key == "price" || named.contains(key), "{key}");
    }
    let other = page.named("## Other variables");
    for name in Page::open("PROTOCOL.md").named("## Environment variables") {
        assert!(other.contains(&name), "{name}");
    }
}

#[test]
fn the_reference_names_every_key_of_a_channel_and_its_examples_are_valid() {
    let page = Page::open("docs/configuration.md");
    let named = page.named("## `[[notify]]`");
    let schema = schema("harness");
    let keys = schema["$defs"]["NotifyChannel"]["properties"].as_object().unwrap();
    for key in keys.keys() {
        assert!(named.contains(key), "{key}");
    }
    let examples = repository().join("crates/harness-cli/src/config/example-notify.toml");
    let env = TestEnvironment::with_git();
    env.write("harness.toml", fs::read_to_string(examples).unwrap());
    env.run(["config"]).success().stdout_contains("notify");
}

#[test]
fn a_template_of_the_configuration_is_written_once_with_its_schema() {
    let env = TestEnvironment::with_git();
    env.run(["config", "--init"]).success();
    let text = env.read("harness.toml");
    assert!(text.starts_with("#:schema .harness/harness.schema.json\n"), "{text}");
    assert_eq!(
        env.read(".harness/harness.schema.json"),
        fs::read_to_string(repository().join("schema/harness.schema.json")).unwrap()
    );
    assert_eq!(env.git(["status", "--porcelain"]), "?? harness.toml");
    env.write("harness.toml", "stall_limit = 7\n");
    env.run(["config", "--init"]).success().stdout_contains("was not changed");
    assert_eq!(env.read("harness.toml"), "stall_limit = 7\n");
}
