//! The entry of our MCP server in Codex's config.toml: a table of its own at the end of the file.
//!
//! The text is cut by lines, which knows little of TOML; so what comes out is read again, and has to
//! say what went in, with our table more or less. Every other byte stays what it was.

use toml::{Table, Value};

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
    let text = file.unwrap_or_default();
    let before = read(text)?;
    if let Some(there) = entry(&before) {
        check_ours(there)?;
        if there.get("command").and_then(Value::as_str) == Some(program) {
            return Ok(text.to_owned());
        }
    }
    let rest = without(text)?.unwrap_or_default();
    let line = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let table = [
        HEADER.to_owned(),
        format!("command = {}", Value::from(program)),
        "args = [\"mcp\"]".to_owned(),
        format!("env_vars = {}", Value::from(VARIABLES.to_vec())),
    ]
    .join(line);
    // A file without a last line end stays one, which tells `without` what to leave.
    let new = match (rest.is_empty(), rest.ends_with('\n')) {
        (true, _) => format!("{table}{line}"),
        (false, true) => format!("{rest}{line}{table}{line}"),
        (false, false) => format!("{rest}{line}{line}{table}"),
    };
    match read(&new) {
        Ok(after) if entry(&after).is_some() && others(after.clone()) == others(before) => Ok(new),
        _ => Err(format!("mcp_servers is written in a way that {HEADER} can not be added to")),
    }
}

/// The file without our table; `None` where nothing else is in it.
pub(super) fn without(text: &str) -> Result<Option<String>, String> {
    let before = read(text)?;
    let Some(there) = entry(&before) else { return Ok(Some(text.to_owned())) };
    // One of the same name that somebody else wrote stays.
    if check_ours(there).is_err() {
        return Ok(Some(text.to_owned()));
    }
    let by_hand = || format!("{HEADER} is written in a way that it can not be taken out");
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let from = lines.iter().position(|line| line.trim() == HEADER).ok_or_else(by_hand)?;
    let next = lines[from + 1..].iter().position(|line| line.trim_start().starts_with('['));
    let to = next.map_or(lines.len(), |length| from + 1 + length);
    // Blank lines and comments before the next table are the next table's.
    let is_own = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let to = lines[from..to].iter().rposition(is_own).map_or(to, |last| from + last + 1);
    let is_blank = |line: &&str| line.trim().is_empty();
    let start = from - usize::from(from > 0 && lines.get(from - 1).is_some_and(is_blank));
    let mut new = lines[..start].concat() + &lines[to..].concat();
    if !text.ends_with('\n') && to == lines.len() {
        let line = new.strip_suffix('\n').map(|rest| rest.strip_suffix('\r').unwrap_or(rest));
        new.truncate(line.map_or(new.len(), str::len));
    }
    match read(&new) {
        Ok(_) if new.is_empty() => Ok(None),
        Ok(after) if entry(&after).is_none() && others(after.clone()) == others(before) => {
            Ok(Some(new))
        }
        _ => Err(by_hand()),
    }
}

fn entry(file: &Table) -> Option<&Value> {
    file.get("mcp_servers")?.get("harness")
}

/// All that is not ours.
fn others(mut file: Table) -> Table {
    if let Some(servers) = file.get_mut("mcp_servers").and_then(Value::as_table_mut) {
        servers.remove("harness");
        if servers.is_empty() {
            file.remove("mcp_servers");
        }
    }
    file
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn comes_back(file: &str) {
        let once = with(Some(file), "harness").unwrap();
        assert_eq!(with(Some(&once), "harness").unwrap(), once);
        let other = with(Some(&once), "/opt/harness").unwrap();
        assert_eq!(
            read(&other).unwrap()["mcp_servers"]["harness"]["args"][0].as_str(),
            Some("mcp")
        );
        for installed in [once, other] {
            let left = without(&installed).unwrap();
            assert_eq!(left.as_deref().unwrap_or(""), file, "{installed}");
        }
    }

    #[test]
    fn a_file_comes_back_byte_by_byte() {
        for file in [
            "",
            "model = 'x'\n",
            "model = 'x'",
            "model = 'x'\n\n",
            "\n",
            "# only a comment\n",
            "# a comment\r\nmodel = 'x' # why\r\n\r\n[projects.'/p']\r\ntrust_level = 'trusted'\r\n",
            "[mcp_servers]\n",
            "mcp_servers.other.command = 'x'\n",
            "[mcp_servers.other]\ncommand = 'x'\n# the end",
        ] {
            comes_back(file);
        }
        assert_eq!(without(&with(None, "harness").unwrap()).unwrap(), None);
    }

    #[test]
    fn what_follows_stays() {
        let file = with(Some("a = 1\n"), "harness").unwrap() + "\n# of b\n[b]\nc = 2\n";
        assert_eq!(without(&file).unwrap().unwrap(), "a = 1\n\n# of b\n[b]\nc = 2\n");
    }

    #[test]
    fn what_is_not_ours_or_makes_no_sense_is_refused() {
        let cases = [
            ("a = \n", "at line 1 column"),
            ("mcp_servers = { other = { command = 'x' } }\n", "can not be added to"),
            ("[mcp_servers.harness]\ncommand = 'mine'\n", "already"),
        ];
        for (file, why) in cases {
            let said = with(Some(file), "harness").unwrap_err();
            assert!(said.contains(why), "{file}: {said}");
        }
        // Words that only look like our table are found out.
        let once = with(Some("text = \"\"\"\n[mcp_servers.harness]\n\"\"\"\n"), "harness").unwrap();
        assert!(without(&once).unwrap_err().contains("can not be taken out"));
        let theirs = "[mcp_servers.harness]\ncommand = 'mine'\n";
        assert_eq!(without(theirs).unwrap().as_deref(), Some(theirs));
    }

    proptest! {
        #[test]
        fn any_file_comes_back(
            lines in prop::collection::vec("(k[a-z]{1,6} = ('[a-z \\[]*'|[0-9]{1,4})|# [a-z\\[\\]]*||\\[t[a-z]{1,6}\\]) {0,2}", 0..12),
            end in "(\r?\n)?",
            line in "\r?\n",
        ) {
            let file = lines.join(&line) + &end;
            prop_assume!(read(&file).is_ok());
            comes_back(&file);
        }
    }
}
