//! Inserted tables can be removed again, and additions of others stay as long as possible.

use proptest::prelude::*;

use super::*;

#[track_caller]
fn comes_back(file: &str) {
    let once = with(Some(file), "harness").unwrap();
    assert_eq!(with(Some(&once), "harness").unwrap(), once);
    let other = with(Some(&once), "/opt/a b/h2").unwrap();
    assert_eq!(with(Some(&other), "harness").unwrap(), once);
    for installed in [once, other] {
        let left = without(&installed).unwrap();
        assert_eq!(left.as_deref(), Some(file), "{installed}");
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
        "text = \"\"\"\n[mcp_servers.harness]\n\"\"\"\nlists = [\n[1],\n[2]]\n",
    ] {
        comes_back(file);
    }
    assert_eq!(without(&with(None, "harness").unwrap()).unwrap(), None);
}

/// Returns `[mcp_servers.harness]` of the file as JSON.
#[track_caller]
fn ours(file: &str) -> serde_json::Value {
    serde_json::to_value(entry(&read(file).unwrap()).unwrap()).unwrap()
}

const OLDER: &str = "\
a = 1

[mcp_servers.harness] # mine
tool_timeout_sec = 3600 # a check is slow
command = 'harness' # on the PATH
args = [
  'mcp', # [mcp_servers.harness]
] # as it is

# what it may do
[mcp_servers.harness.tools.task_claim]
approval_mode = \"approve\"

[ mcp_servers . 'harness' . env ]
A = '1'

# of b
[b]
c = 2
";

#[test]
fn what_was_added_to_our_table_stays_when_it_is_changed() {
    for text in [OLDER.to_owned(), OLDER.replace('\n', "\r\n")] {
        let new = with(Some(&text), "/opt/h2").unwrap();
        let line = format!("env_vars = {}{}", Value::from(VARIABLES.to_vec()), line_end(&text));
        let expected = text.replace("'harness' # on", "\"/opt/h2\" # on").replace(
            "] # as it is",
            &format!("] # as it is{}{}", line_end(&text), line.trim_end()),
        );
        assert_eq!(new, expected);
        assert_eq!(with(Some(&new), "/opt/h2").unwrap(), new);
    }
    let listed = "[mcp_servers.harness]\ncommand = 'harness'\nargs = ['mcp']\nenv_vars = ['MINE', 'HARNESS_SOCKET']";
    let new = with(Some(listed), "harness").unwrap();
    let names = ours(&new)["env_vars"].as_array().unwrap().clone();
    assert_eq!((names[0].as_str(), names.len()), (Some("MINE"), VARIABLES.len() + 1), "{new}");
    assert!(new.starts_with("[mcp_servers.harness]\ncommand = 'harness'\nargs = ['mcp']\nenv"));
}

#[test]
fn our_table_goes_with_those_in_it() {
    for text in [OLDER.to_owned(), OLDER.replace('\n', "\r\n")] {
        let line = line_end(&text);
        let left = ["a = 1", "", "# what it may do", "", "# of b", "[b]", "c = 2", ""].join(line);
        assert_eq!(without(&text).unwrap().unwrap(), left);
    }
    let made = with(None, "harness").unwrap() + "\n[mcp_servers.harness.env]\nA = '1'\n";
    assert_eq!(without(&made).unwrap(), None);
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
        ("mcp_servers = { other = { command = 'x' } }\n", "cannot be added"),
        ("mcp_servers.harness = { command = 'h2', args = ['mcp'] }\n", "cannot be changed"),
        ("[mcp_servers.harness]\ncommand = 'mine'\n", "already"),
    ];
    for (file, why) in cases {
        let said = with(Some(file), "harness").unwrap_err();
        assert!(said.contains(why), "{file}: {said}");
    }
    let inline = "mcp_servers.harness = { command = 'harness', args = ['mcp'] }\n";
    assert!(without(inline).unwrap_err().contains("cannot be removed"));
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
