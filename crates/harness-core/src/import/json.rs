//! JSON whose values keep their places in the text.

use std::{collections::BTreeMap, ops::Range};

use serde_json::{Value, value::RawValue};

use super::ImportProblem;

/// A text with its path, for values and for problems.
#[derive(Clone, Copy)]
pub(super) struct Text<'a> {
    pub(super) path: &'a str,
    pub(super) whole: &'a str,
}

/// One object of a text.
pub(super) struct Object<'a> {
    text: Text<'a>,
    place: Range<usize>,
    fields: BTreeMap<String, &'a RawValue>,
}

impl<'a> Text<'a> {
    /// Returns the value of the whole text. The mark at its beginning is left out.
    pub(super) fn value(self) -> Result<&'a RawValue, ImportProblem> {
        let body = self.whole.strip_prefix('\u{feff}').unwrap_or(self.whole);
        self.parse(body)
    }

    /// Reads the part of the text that is `body`.
    pub(super) fn parse(self, body: &'a str) -> Result<&'a RawValue, ImportProblem> {
        serde_json::from_str(body).map_err(|why| {
            let lines_before = self.line(self.place_of(body).start) - 1;
            self.problem(Some(lines_before + why.line().max(1)), format!("it is not JSON: {why}"))
        })
    }

    pub(super) fn object(self, value: &'a RawValue) -> Result<Object<'a>, ImportProblem> {
        let place = self.place_of(value.get());
        match serde_json::from_str(value.get()) {
            Ok(fields) => Ok(Object { text: self, place, fields }),
            Err(_) => Err(self.at(value, "expected an object")),
        }
    }

    pub(super) fn list(self, value: &'a RawValue) -> Result<Vec<&'a RawValue>, ImportProblem> {
        serde_json::from_str(value.get()).map_err(|_| self.at(value, "expected a list"))
    }

    /// Returns the problem with a value.
    pub(super) fn at(self, value: &RawValue, problem: impl Into<String>) -> ImportProblem {
        let line = self.line(self.place_of(value.get()).start);
        self.problem(Some(line), problem.into())
    }

    fn problem(self, line: Option<usize>, problem: String) -> ImportProblem {
        ImportProblem { path: self.path.to_owned(), line, problem }
    }

    fn line(self, at: usize) -> usize {
        let before = self.whole.as_bytes().get(..at).unwrap_or_default();
        before.iter().filter(|byte| **byte == b'\n').count() + 1
    }

    /// Returns the place of a part of this text. Values are borrowed from it, so their address tells.
    fn place_of(self, part: &str) -> Range<usize> {
        let start = part.as_ptr().addr().saturating_sub(self.whole.as_ptr().addr());
        let start = start.min(self.whole.len());
        start..start.saturating_add(part.len()).min(self.whole.len())
    }
}

impl<'a> Object<'a> {
    /// Returns a field. `null` counts as missing.
    pub(super) fn get(&self, key: &str) -> Option<&'a RawValue> {
        self.fields.get(key).copied().filter(|value| value.get() != "null")
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = (&str, &'a RawValue)> {
        self.fields.iter().map(|(key, value)| (key.as_str(), *value))
    }

    /// Returns a text field. It is empty if it is missing.
    pub(super) fn text(&self, key: &str) -> Result<String, ImportProblem> {
        match self.get(key).map(|value| (value, serde_json::from_str(value.get()))) {
            None => Ok(String::new()),
            Some((_, Ok(text))) => Ok(text),
            Some((value, Err(_))) => Err(self.wrong(key, value, "a string")),
        }
    }

    /// Returns a text field that must not be empty.
    pub(super) fn required_text(&self, key: &str) -> Result<String, ImportProblem> {
        let text = self.text(key)?;
        if text.trim().is_empty() { Err(self.missing(key)) } else { Ok(text) }
    }

    /// Returns a name, which may be written as a number.
    pub(super) fn name(&self, key: &str) -> Result<Option<String>, ImportProblem> {
        let Some(value) = self.get(key) else { return Ok(None) };
        name(value).map(Some).ok_or_else(|| self.wrong(key, value, "a string or a number"))
    }

    pub(super) fn required_name(&self, key: &str) -> Result<String, ImportProblem> {
        let name = self.name(key)?.filter(|name| !name.trim().is_empty());
        name.ok_or_else(|| self.missing(key))
    }

    /// Returns a list of names. One name alone counts as a list of it.
    pub(super) fn names(&self, key: &str) -> Result<Vec<String>, ImportProblem> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        if let Some(one) = name(value) {
            return Ok(vec![one]);
        }
        let wrong = || self.wrong(key, value, "a list of strings or numbers");
        let list = self.text.list(value).map_err(|_| wrong())?;
        list.into_iter().map(|value| name(value).ok_or_else(wrong)).collect()
    }

    /// Returns `true` or `false`; `false` if it is missing.
    pub(super) fn flag(&self, key: &str) -> Result<bool, ImportProblem> {
        match self.get(key).map(RawValue::get) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => {
                let value = self.get(key).unwrap_or(RawValue::NULL);
                Err(self.wrong(key, value, "true or false"))
            }
        }
    }

    /// Returns the objects of a list; none if it is missing.
    pub(super) fn objects(&self, key: &str) -> Result<Vec<Object<'a>>, ImportProblem> {
        let Some(value) = self.get(key) else { return Ok(Vec::new()) };
        let list = self.text.list(value).map_err(|_| self.wrong(key, value, "a list"))?;
        list.into_iter().map(|value| self.text.object(value)).collect()
    }

    /// Reads a value of this object as an object.
    pub(super) fn object(&self, value: &'a RawValue) -> Result<Object<'a>, ImportProblem> {
        self.text.object(value)
    }

    /// Returns the place of a field's value.
    pub(super) fn place(&self, key: &str) -> Option<Range<usize>> {
        self.fields.get(key).map(|value| self.text.place_of(value.get()))
    }

    /// Returns a problem with this object.
    pub(super) fn problem(&self, problem: impl Into<String>) -> ImportProblem {
        self.text.problem(Some(self.text.line(self.place.start)), problem.into())
    }

    fn missing(&self, key: &str) -> ImportProblem {
        self.problem(format!("`{key}` is required, but missing or empty"))
    }

    fn wrong(&self, key: &str, value: &RawValue, wanted: &str) -> ImportProblem {
        self.text.at(value, format!("`{key}`: expected {wanted}"))
    }
}

fn name(value: &RawValue) -> Option<String> {
    match serde_json::from_str(value.get()) {
        Ok(Value::String(text)) => Some(text),
        Ok(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    }
}
