//! Finds the sources in the answer of a search tool. Each tool has its own format, so the names of
//! lists decide, at any depth of the answer.

use serde_json::{Map, Value};

use super::url;
use crate::quote::{head, one_line, plain};

/// The names of lists in which search tools return their results.
const LISTS: [&str; 24] = [
    "results",
    "articles",
    "data",
    "items",
    "organic",
    "organic_results",
    "news",
    "news_results",
    "search_results",
    "web_results",
    "hits",
    "documents",
    "docs",
    "entries",
    "records",
    "sources",
    "citations",
    "references",
    "papers",
    "posts",
    "pages",
    "stories",
    "value",
    "top_stories",
];
const TITLES: [&str; 2] = ["title", "name"];
const SNIPPETS: [&str; 5] = ["snippet", "description", "summary", "excerpt", "abstract"];
const CONTENTS: [&str; 4] = ["content", "raw_content", "markdown", "text"];

/// No tool nests its list deeper than this. The parser itself stops at 128.
const DEPTH_MAX: usize = 12;
/// The limit of results. No answer to one question has more.
const ENTRIES_MAX: usize = 10_000;
const TITLE_BYTES: usize = 300;
const SNIPPET_BYTES: usize = 2 * 1024;
const CONTENT_BYTES: usize = 64 * 1024;

/// One result in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The address, with http or https.
    pub url: String,
    /// The title on one line, which may be empty.
    pub title: String,
    /// The snippet, which may be empty.
    pub snippet: String,
    /// The text of the page, if the answer contains it.
    pub content: Option<String>,
}

/// Returns the sources in an answer, in its order. The error is that of the JSON parser.
pub fn extract(text: &str) -> Result<Vec<Entry>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value: Value = serde_json::from_str(text).map_err(|why| why.to_string())?;
    let mut found = Vec::new();
    match &value {
        // Some tools answer with the list alone.
        Value::Array(items) => list(items, 0, &mut found),
        other => walk(other, 0, &mut found),
    }
    Ok(found)
}

fn walk(value: &Value, depth: usize, found: &mut Vec<Entry>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::Array(items) if is_list(name) => list(items, depth + 1, found),
                    other => walk(other, depth + 1, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, depth + 1, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn is_list(name: &str) -> bool {
    LISTS.iter().any(|list| list.eq_ignore_ascii_case(name))
}

fn list(items: &[Value], depth: usize, found: &mut Vec<Entry>) {
    for item in items {
        // Data inside of a result, such as its own links, is not a result. But an item that is not
        // a result may contain lists, for example one per question.
        match item.as_object().and_then(entry) {
            Some(entry) if found.len() < ENTRIES_MAX => found.push(entry),
            Some(_) => return,
            None => walk(item, depth + 1, found),
        }
    }
}

fn entry(fields: &Map<String, Value>) -> Option<Entry> {
    let url = ["url", "link"].iter().filter_map(|name| fields.get(*name)?.as_str());
    let url = url.filter_map(url::web).next()?;
    let first = |names: &[&str]| {
        let texts = names.iter().filter_map(|name| fields.get(*name)?.as_str());
        texts.map(|text| plain(text).trim().to_owned()).find(|text| !text.is_empty())
    };
    let content = first(&CONTENTS).map(|text| head(&text, CONTENT_BYTES));
    let snippet = first(&SNIPPETS).or_else(|| content.clone()).unwrap_or_default();
    let snippet = head(&snippet, SNIPPET_BYTES);
    Some(Entry {
        url,
        title: head(&one_line(&first(&TITLES).unwrap_or_default()), TITLE_BYTES),
        // Do not store the same text twice.
        content: content.filter(|content| *content != snippet),
        snippet,
    })
}
