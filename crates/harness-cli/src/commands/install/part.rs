//! Our part in one file of an agent: how it is put in, and how it is removed.

use super::{
    hooks::{self, Wanted},
    json_text::JsonText,
    page::{self, Reader},
    server, server_toml,
};

#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Hooks(&'static Wanted),
    Server,
    ServerToml,
    Page(Reader),
}

impl Part {
    pub(super) fn with(self, text: Option<&str>, program: &str) -> Result<Option<String>, String> {
        let made = |file: JsonText| Some(laid_into(text, file.text()));
        match self {
            Part::Hooks(wanted) => hooks::with(parse(text)?, wanted, program).map(made),
            Part::Server => server::with(parse(text)?, program).map(made),
            Part::ServerToml => server_toml::with(text, program).map(Some),
            Part::Page(reader) => Ok(Some(page::with(text, reader))),
        }
    }

    pub(super) fn without(self, text: Option<&str>) -> Result<Option<String>, String> {
        let Some(there) = text else { return Ok(None) };
        let left = |file: Option<JsonText>| match file {
            Some(file) => Some(laid_into(text, file.text())),
            None => blank_before(there),
        };
        match (self, parse_of(self, there)?) {
            (Part::Hooks(wanted), Some(file)) => hooks::without(file, wanted).map(left),
            (Part::Server, Some(file)) => server::without(file).map(left),
            (Part::ServerToml, _) => server_toml::without(there),
            (Part::Page(_), _) if page::is_ours(there) => Ok(None),
            _ => Ok(Some(there.to_owned())),
        }
    }

    /// Returns an empty file of this kind. A page must be removed, even if it is a link.
    pub(super) const fn emptied(self) -> Option<&'static str> {
        match self {
            Part::Hooks(_) | Part::Server => Some("{}\n"),
            Part::ServerToml => Some(""),
            Part::Page(_) => None,
        }
    }
}

/// The byte order mark. Some editors begin a file with it, and agents ignore it.
const MARK: char = '\u{feff}';

/// Parses a file; `None` if it is empty. Agents treat a blank file like one of `{}`.
fn parse(text: Option<&str>) -> Result<Option<JsonText>, String> {
    let text = text.filter(|text| !is_blank(text));
    let text = text.map(|text| text.strip_prefix(MARK).unwrap_or(text));
    text.map(JsonText::parse).transpose().map_err(|why| format!("not readable as JSON: {why}"))
}

fn parse_of(part: Part, text: &str) -> Result<Option<JsonText>, String> {
    match part {
        Part::Hooks(_) | Part::Server => parse(Some(text)),
        Part::ServerToml | Part::Page(_) => Ok(None),
    }
}

/// Returns the new text of a file, which may have existed. A new line after blank content lets
/// `blank_before` recognise it.
fn laid_into(before: Option<&str>, text: &str) -> String {
    match before {
        Some(blank) if is_blank(blank) => format!("{blank}\n{text}"),
        Some(marked) if marked.starts_with(MARK) => format!("{MARK}{text}"),
        _ => text.to_owned(),
    }
}

/// Returns the blank file that our document was put into, if there was one.
fn blank_before(text: &str) -> Option<String> {
    let (before, _) = text.split_once('{')?;
    before.strip_suffix('\n').map(str::to_owned)
}

fn is_blank(text: &str) -> bool {
    text.strip_prefix(MARK).unwrap_or(text).trim().is_empty()
}
