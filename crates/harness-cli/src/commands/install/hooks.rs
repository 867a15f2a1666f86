//! The hooks in a settings file of Claude Code or Codex, which have one form:
//! `{"hooks": {EVENT: [{"hooks": [{"type": "command", "command": …}]}]}}`, and the variables that they
//! need in it: `{"env": {NAME: VALUE}}`.

use serde_json::{Value, json};

use super::{
    call::Call,
    json_text::{
        JsonText, Left,
        Step::{Index, Key},
    },
};

/// The required content of a settings file.
#[derive(Debug)]
pub(super) struct Wanted {
    /// Events of the agent, and our hooks that they call: `("Stop", "stop self-reflect")`.
    pub(super) events: &'static [(&'static str, &'static str)],
    /// Variables of the agent, and their values. One that is already set stays unchanged.
    pub(super) variables: &'static [(&'static str, &'static str)],
}

/// Returns the file with our hooks, each of them once. Changes beside their command stay, and so do
/// variables before it.
pub(super) fn with(
    file: Option<JsonText>,
    wanted: &Wanted,
    program: &str,
) -> Result<JsonText, String> {
    let quoted = shlex::try_quote(program).map_err(|why| format!("the program: {why}"))?;
    let command = |names: &str| format!("{quoted} hook {names}");
    let group =
        |names: &str| json!({ "hooks": [{ "type": "command", "command": command(names) }] });
    let mut file = match file {
        Some(file) => file,
        None => {
            let events = wanted.events.iter();
            let events = events.map(|(event, names)| ((*event).to_owned(), json!([group(names)])));
            let mut made = json!({ "hooks": Value::Object(events.collect()) });
            for (name, value) in wanted.variables {
                made["env"][name] = json!(value);
            }
            return JsonText::made(&made).map_err(|why| why.to_string());
        }
    };
    check(&file)?;
    let mut programs = programs(&file);
    programs.push(program.to_owned());
    for (event, names) in wanted.events {
        let path = [Key("hooks"), Key(event)];
        match (file.get(&path[..1]), file.get(&path), ours(&file, event, &programs).first()) {
            (_, _, Some(((group, handler), there))) => {
                let at = [
                    path[0],
                    path[1],
                    Index(*group),
                    Key("hooks"),
                    Index(*handler),
                    Key("command"),
                ];
                if let Some(new) = changed(there, &command(names)) {
                    file.replace(&at, &new);
                }
            }
            (None, ..) => file.insert(&[], "hooks", &json!({ *event: [group(names)] })),
            (Some(_), None, _) => file.insert(&path[..1], event, &json!([group(names)])),
            (Some(_), Some(_), None) => file.push(&path, &group(names)),
        }
    }
    // These are entries of an older version that this one does not use.
    let is_wanted = |event: &str| wanted.events.iter().any(|(name, _)| *name == event);
    for event in events(&file) {
        _ = take_out(&mut file, &event, &programs, usize::from(is_wanted(&event)));
    }
    for (name, value) in wanted.variables {
        match (file.get(&[Key("env")]), file.get(&[Key("env"), Key(name)])) {
            (_, Some(_)) => {}
            (None, None) => file.insert(&[], "env", &json!({ *name: value })),
            (Some(_), None) => file.insert(&[Key("env")], name, &json!(value)),
        }
    }
    Ok(file)
}

/// Returns the file without any hook or variable of ours; `None` if nothing else is in it. A
/// variable with another value belongs to the user.
pub(super) fn without(mut file: JsonText, wanted: &Wanted) -> Result<Option<JsonText>, String> {
    check(&file)?;
    // The last addition is removed first, so that it is known which brackets were made here.
    for (name, value) in wanted.variables.iter().rev() {
        let path = [Key("env"), Key(name)];
        if file.get(&path) == Some(json!(value)) && file.remove(&path) == Left::Nothing {
            return Ok(None);
        }
    }
    let programs = programs(&file);
    for event in events(&file) {
        if take_out(&mut file, &event, &programs, 0) == Left::Nothing {
            return Ok(None);
        }
    }
    Ok(Some(file))
}

/// Removes all of our hooks from an event except the first `keep`.
fn take_out(file: &mut JsonText, event: &str, programs: &[String], keep: usize) -> Left {
    // The removal starts at the end, so that the places of the others stay valid.
    for ((group, handler), _) in ours(file, event, programs).into_iter().skip(keep).rev() {
        let path = [Key("hooks"), Key(event), Index(group), Key("hooks"), Index(handler)];
        let alone = file.get(&path[..4]).and_then(|all| Some(all.as_array()?.len())) == Some(1);
        // The agent ignores a group without hooks.
        if file.remove(if alone { &path[..3] } else { &path }) == Left::Nothing {
            return Left::Nothing;
        }
    }
    Left::Something
}

fn events(file: &JsonText) -> Vec<String> {
    let hooks = file.get(&[Key("hooks")]);
    let events = hooks.as_ref().and_then(Value::as_object);
    events.map(|events| events.keys().cloned().collect()).unwrap_or_default()
}

/// Returns the names of harness in this file. A hook of another name is ours if a hook beside it
/// shows that its program is harness.
fn programs(file: &JsonText) -> Vec<String> {
    let events = events(file);
    let commands = events.iter().flat_map(|event| commands(file, event));
    let calls = commands.filter_map(|(_, command)| {
        Call::parse(&command).filter(Call::gives_itself_away).map(|call| call.program)
    });
    calls.collect()
}

/// Returns the new text of our command; `None` if it already means the same.
fn changed(there: &str, wanted: &str) -> Option<String> {
    match (Call::parse(there), Call::parse(wanted)) {
        (Some(there), Some(wanted)) if there.does_as(&wanted) => None,
        (Some(there), _) if !there.variables.is_empty() => {
            Some(format!("{} {wanted}", there.variables))
        }
        _ => Some(wanted.to_owned()),
    }
}

/// A group of an event, and a place in it.
type At = (usize, usize);

fn ours(file: &JsonText, event: &str, programs: &[String]) -> Vec<(At, String)> {
    let is_ours =
        |command: &str| Call::parse(command).is_some_and(|call| programs.contains(&call.program));
    commands(file, event).into_iter().filter(|(_, command)| is_ours(command)).collect()
}

/// Returns all commands of an event.
fn commands(file: &JsonText, event: &str) -> Vec<(At, String)> {
    let groups = file.get(&[Key("hooks"), Key(event)]).unwrap_or_default();
    let mut found = Vec::new();
    for (at, group) in groups.as_array().into_iter().flatten().enumerate() {
        let handlers = group["hooks"].as_array().into_iter().flatten().enumerate();
        found.extend(handlers.filter_map(|(place, handler)| {
            Some(((at, place), handler["command"].as_str()?.to_owned()))
        }));
    }
    found
}

/// Checks that the file has the form that agents read.
fn check(file: &JsonText) -> Result<(), String> {
    let whole = file.get(&[]).unwrap_or_default();
    let Some(fields) = whole.as_object() else { return Err("it is not an object".to_owned()) };
    if fields.get("env").is_some_and(|env| !env.is_object()) {
        return Err("env is not an object".to_owned());
    }
    let Some(hooks) = fields.get("hooks") else { return Ok(()) };
    let Some(events) = hooks.as_object() else { return Err("hooks is not an object".to_owned()) };
    match events.iter().find(|(_, groups)| !groups.is_array()) {
        Some((event, _)) => Err(format!("hooks.{event} is not a list")),
        None => Ok(()),
    }
}
