//! The entry of our MCP server in Codex's config.toml: a table of its own at the end of the file.
//!
//! The text is cut at the headers of its tables, and ours is changed or taken out as text, with the
//! tables in it that Codex or somebody else has added. What comes out is read again, and has to say
//! of all else what went in. Every other byte stays what it was.

use std::ops::Range;

use toml::{Table, Value, de::DeTable};

use super::server;

const HEADER: &str = "[mcp_servers.harness]";
/// Codex hands on nothing of its environment that is not named.
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

/// A file that was there, and be it empty, gets a blank line before our table; one without a last
/// line end stays one. So `without` can tell what to leave.
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

/// With our table as this version has it, and what else is in it as it was.
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

/// Which of our variables are not named; `None` where they are written in a way we do not know.
fn missing(entry: &Value) -> Option<Vec<&'static str>> {
    let listed = match entry.get("env_vars") {
        None => &[][..],
        Some(listed) => listed.as_array()?,
    };
    let is_missing = |name: &&str| !listed.iter().any(|listed| listed.as_str() == Some(name));
    Some(VARIABLES.into_iter().filter(is_missing).collect())
}

/// Where the value of a key of our table is.
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

/// The file without our table and those in it; `None` where nothing else was in it.
pub(super) fn without(text: &str) -> Result<Option<String>, String> {
    let before = read(text)?;
    // One of the same name that somebody else wrote stays.
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
        // Blank lines and comments before the next table are the next table's.
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

/// The text in pieces, each but the first from the header of a table on. A line of a longer string or
/// list may look like one; before it there is no whole piece.
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

/// What the header of a piece says, if it is that of our table (then nothing) or of one in it.
fn header(section: &str) -> Option<Table> {
    let line = section.lines().next().filter(|line| line.trim_start().starts_with('['))?;
    entry(&read(line).ok()?)?.as_table().cloned()
}

fn entry(file: &Table) -> Option<&Value> {
    file.get("mcp_servers")?.get("harness")
}

/// Whether all that is not ours is the same.
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
