//! The entry of our MCP server in Codex's config.toml: a table of its own at the end of the file.
//!
//! The text is split at the headers of its tables. Our table is changed or removed as text, with
//! the tables in it that Codex or the user has added. The result is parsed again, and must be equal
//! to the input in everything else. Every other byte stays unchanged.

use std::ops::Range;

use toml::{Table, Value, de::DeTable};

use super::server;

const HEADER: &str = "[mcp_servers.harness]";
/// Codex passes on only the variables that are named.
const VARIABLES: [&str; 8] = [
    "HARNESS_STATE_ROOT",
    "HARNESS_WORKER_ID",
    "HARNESS_TASK_ID",
    "HARNESS_EPOCH",
    "HARNESS_RUN_ID",
    "HARNESS_SOCKET",
    "HARNESS_DAEMON",
    "XDG_RUNTIME_DIR",
];

pub(super) fn with(file: Option<&str>, program: &str) -> Result<String, String> {
    let before = read(file.unwrap_or_default())?;
    let (new, failed) = match (file, entry(&before)) {
        (Some(text), Some(there)) => {
            check_ours(there)?;
            (updated(text, there, program), "changed")
        }
        _ => (Some(added(file, program)), "added"),
    };
    let is_right = |new: &String| {
        let is_said = |there: &Value| {
            there.get("command").and_then(Value::as_str) == Some(program)
                && missing(there).is_none_or(|missing| missing.is_empty())
        };
        read(new).is_ok_and(|after| entry(&after).is_some_and(is_said) && same(&after, &before))
    };
    new.filter(is_right).ok_or_else(|| {
        format!("mcp_servers is written in a form in which {HEADER} cannot be {failed}")
    })
}

/// Adds our table. An existing file, even an empty one, gets a blank line before it. A file without
/// a last line end stays one. So `without` can tell what to leave.
fn added(file: Option<&str>, program: &str) -> String {
    let text = file.unwrap_or_default();
    let line = line_end(text);
    let table = [
        HEADER.to_owned(),
        format!("command = {}", Value::from(program)),
        "args = [\"mcp\"]".to_owned(),
        format!("env_vars = {}", Value::from(VARIABLES.to_vec())),
    ]
    .join(line);
    match (file.is_some(), text.is_empty() || text.ends_with('\n')) {
        (false, _) => format!("{table}{line}"),
        (true, true) => format!("{text}{line}{table}{line}"),
        (true, false) => format!("{text}{line}{line}{table}"),
    }
}

/// Updates our table to this version, and leaves everything else in it unchanged.
fn updated(text: &str, there: &Value, program: &str) -> Option<String> {
    let mut new = text.to_owned();
    let missing = missing(there).unwrap_or_default();
    if !missing.is_empty() {
        let listed = there.get("env_vars").and_then(Value::as_array).into_iter().flatten().cloned();
        let all = Value::Array(listed.chain(missing.into_iter().map(Value::from)).collect());
        match place_of(&new, "env_vars") {
            Some(place) => new.replace_range(place, &all.to_string()),
            None => {
                let args = place_of(&new, "args")?.end;
                let rest = new[args..].lines().next().unwrap_or_default().len();
                let line = line_end(text);
                new.insert_str(args + rest, &format!("{line}env_vars = {all}"));
            }
        }
    }
    if there.get("command").and_then(Value::as_str) != Some(program) {
        let place = place_of(&new, "command")?;
        new.replace_range(place, &Value::from(program).to_string());
    }
    Some(new)
}

/// Returns our variables that are not named; `None` if they are written in an unknown way.
fn missing(entry: &Value) -> Option<Vec<&'static str>> {
    let listed = match entry.get("env_vars") {
        None => &[][..],
        Some(listed) => listed.as_array()?,
    };
    let is_missing = |name: &&str| !listed.iter().any(|listed| listed.as_str() == Some(name));
    Some(VARIABLES.into_iter().filter(is_missing).collect())
}

/// Returns the place of the value of a key in our table.
fn place_of(text: &str, key: &str) -> Option<Range<usize>> {
    let mut start = 0;
    for section in sections(text) {
        if header(section).is_some_and(|table| table.is_empty()) {
            let table = DeTable::parse(section).ok()?;
            let entry = table.get_ref().get("mcp_servers")?.get_ref().get("harness")?;
            let place = entry.get_ref().get(key)?.span();
            return Some(start + place.start..start + place.end);
        }
        start += section.len();
    }
    None
}

/// Returns the file without our table and those in it; `None` if nothing else was in it.
pub(super) fn without(text: &str) -> Result<Option<String>, String> {
    let before = read(text)?;
    // A table of the same name that another program wrote stays.
    if entry(&before).is_none_or(|there| check_ours(there).is_err()) {
        return Ok(Some(text.to_owned()));
    }
    let mut new = String::new();
    for section in sections(text) {
        if header(section).is_none() {
            new += section;
            continue;
        }
        let line = new.strip_suffix('\n').map(|rest| rest.rfind('\n').map_or(0, |at| at + 1));
        if let Some(start) = line.filter(|start| new[*start..].trim().is_empty()) {
            new.truncate(start);
        }
        // Blank lines and comments before the next table belong to the next table.
        let is_own = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
        let lines: Vec<&str> = section.split_inclusive('\n').collect();
        let end = lines.iter().rposition(is_own).map_or(lines.len(), |last| last + 1);
        new.extend(lines[end..].iter().copied());
    }
    if !text.ends_with('\n') {
        let line = new.strip_suffix('\n').map(|rest| rest.strip_suffix('\r').unwrap_or(rest));
        new.truncate(line.map_or(new.len(), str::len));
    }
    match read(&new) {
        Ok(_) if new.is_empty() && text.starts_with('[') => Ok(None),
        Ok(after) if entry(&after).is_none() && same(&after, &before) => Ok(Some(new)),
        _ => Err(format!("{HEADER} is written in a form in which it cannot be removed")),
    }
}

/// Splits the text into pieces, each except the first starting at the header of a table. A line of
/// a longer string or list may look like a header, but the text before it is not a complete piece.
fn sections(text: &str) -> Vec<&str> {
    let mut sections = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim_start().starts_with('[') && read(&text[start..at]).is_ok() {
            sections.push(&text[start..at]);
            start = at;
        }
        at += line.len();
    }
    sections.push(&text[start..]);
    sections
}

/// Returns the content of a piece's header, if it is that of our table (empty then) or of one in
/// it.
fn header(section: &str) -> Option<Table> {
    let line = section.lines().next().filter(|line| line.trim_start().starts_with('['))?;
    entry(&read(line).ok()?)?.as_table().cloned()
}

fn entry(file: &Table) -> Option<&Value> {
    file.get("mcp_servers")?.get("harness")
}

/// Returns whether everything that is not ours is equal.
fn same(one: &Table, other: &Table) -> bool {
    others(one.clone()) == others(other.clone())
}

fn others(mut file: Table) -> Table {
    if let Some(servers) = file.get_mut("mcp_servers").and_then(Value::as_table_mut) {
        servers.remove("harness");
        if servers.is_empty() {
            file.remove("mcp_servers");
        }
    }
    file
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

fn check_ours(entry: &Value) -> Result<(), String> {
    let entry = serde_json::to_value(entry).unwrap_or_default();
    if server::is_ours(&entry) { Ok(()) } else { Err(server::taken(&entry["command"])) }
}

fn read(text: &str) -> Result<Table, String> {
    text.parse::<Table>().map_err(|why| {
        let at = why.span().map_or(0, |span| span.start).min(text.len());
        let before = text.get(..at).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        format!("{} at line {line} column {column}", why.message())
    })
}

#[cfg(test)]
mod tests;
