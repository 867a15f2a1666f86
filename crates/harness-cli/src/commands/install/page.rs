//! The page that explains the protocol to an agent: `/harness` of Claude Code, `$harness` of Codex.
//!
//! Its last line is a seal over the rest. A page with a broken seal was edited by its user. It is
//! neither overwritten nor removed.

use sha2::{Digest, Sha256};

const PROTOCOL: &str = include_str!("protocol.md");
const CLAUDE: &str = include_str!("head_claude.md");
const CODEX: &str = include_str!("head_codex.md");
const SEAL: &str = "<!-- written by `harness install`; edit it and it is yours: ";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reader {
    Claude,
    Codex,
}

pub(super) fn of(reader: Reader) -> String {
    let head = match reader {
        Reader::Claude => CLAUDE,
        Reader::Codex => CODEX,
    };
    let page = format!("{head}{PROTOCOL}");
    format!("{page}{SEAL}{} -->\n", seal(&page))
}

/// Returns the new content of a page. An edited page stays unchanged.
pub(super) fn with(there: Option<&str>, reader: Reader) -> String {
    let new = of(reader);
    match there {
        Some(text) if !is_ours(text) || with_plain_lines(text) == new => text.to_owned(),
        _ => new,
    }
}

/// Returns whether harness wrote it, in this version or another.
pub(super) fn is_ours(text: &str) -> bool {
    let text = with_plain_lines(text);
    let Some((page, last)) = text.rsplit_once(SEAL) else { return false };
    last.trim_end().strip_suffix(" -->") == Some(&*seal(page))
}

/// Removes the line ends of Windows, which git may insert and which are not visible.
fn with_plain_lines(text: &str) -> String {
    text.replace("\r\n", "\n")
}

fn seal(page: &str) -> String {
    Sha256::digest(page.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}
