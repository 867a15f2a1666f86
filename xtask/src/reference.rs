//! `docs/configuration.md`: every key of harness.toml and every variable, from the schema that the
//! program prints, the examples in `crates/harness-cli/src/config`, and a table of PROTOCOL.md.

use std::fmt::Write as _;

use serde_json::Value;
use toml::Table;

use crate::page::Page;

const HEAD: &str = include_str!("reference.md");
const EXAMPLES: &str = "the examples in crates/harness-cli/src/config";

/// One key, as the page shows it.
struct Key {
    /// The full name, such as `limits.max_cost` or `agents.NAME.model`.
    name: String,
    kind: String,
    default: String,
    meaning: String,
    example: Option<toml::Value>,
}

/// A table of harness.toml. That of the keys outside of any table has no name.
struct Section {
    name: String,
    meaning: String,
    keys: Vec<Key>,
    /// The tables that show it, if it may be there more than once.
    list: Option<Vec<Table>>,
}

/// Returns the page. A key without a meaning or an example is an error, so that none is forgotten.
pub(crate) fn page(
    schema: &Value,
    examples: &Page,
    lists: &Page,
    protocol: &Page,
) -> Result<String, String> {
    let parsed = |page: &Page| page.text.parse().map_err(|why| format!("{EXAMPLES}: {why}"));
    let reader = Reader { schema, examples: parsed(examples)?, lists: parsed(lists)? };
    let mut sections = Vec::new();
    reader.section("", schema, String::new(), &mut sections)?;
    let mut page = HEAD.to_owned();
    for section in &sections {
        section.write(&mut page);
    }
    page += "\n## Variables of keys\n\nA variable takes precedence over the files. Lists are separated by \
             commas. The keys of `[agents.NAME]` and `[[notify]]` have none.\n\n\
             | variable | key | type | example |\n|---|---|---|---|\n";
    let single = sections.iter().filter(|section| section.list.is_none());
    for key in single.flat_map(|section| &section.keys) {
        let (Some(variable), Some(example)) = (variable(&key.name), &key.example) else { continue };
        let (name, kind) = (&key.name, &key.kind);
        _ = writeln!(page, "| `{variable}` | `{name}` | {kind} | `{}` |", plain(example));
    }
    page += "\n## Other variables\n\n| variable | read by | meaning and default |\n|---|---|---|\n";
    for row in protocol.rows("## Environment variables") {
        let meaning = row[2].replace("](#", "](../PROTOCOL.md#").replace("](docs/", "](");
        let readers = row[1].replace("](docs/", "](");
        _ = writeln!(page, "| {} | {readers} | {meaning} |", row[0]);
    }
    Ok(page)
}

struct Reader<'a> {
    schema: &'a Value,
    examples: Table,
    /// Examples of tables that may be there more than once.
    lists: Table,
}

impl Reader<'_> {
    /// Collects the keys of one table, and then the tables in it.
    fn section(
        &self,
        name: &str,
        schema: &Value,
        meaning: String,
        sections: &mut Vec<Section>,
    ) -> Result<(), String> {
        let mut keys = Vec::new();
        let mut tables = Vec::new();
        let mut lists = Vec::new();
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let full = if name.is_empty() { key.clone() } else { format!("{name}.{key}") };
            let table = self.table(property);
            let meaning = text(property).or_else(|| text(table.unwrap_or(&Value::Null)));
            let meaning = meaning.ok_or(format!("{full} has no doc comment"))?;
            match table {
                Some(table) if table["additionalProperties"].is_object() => {
                    let inner = self.resolve(&table["additionalProperties"]);
                    tables.push((format!("{full}.NAME"), inner, meaning));
                }
                Some(table) => tables.push((full, table, meaning)),
                None => {
                    if let Some(items) = self.items(property) {
                        lists.push(self.list(&full, items)?);
                    }
                    let example = self.example(&full);
                    keys.push(self.key(full, property, meaning, example, schema)?);
                }
            }
        }
        sections.push(Section { name: name.to_owned(), meaning, keys, list: None });
        sections.extend(lists);
        for (name, table, meaning) in tables {
            self.section(&name, table, meaning, sections)?;
        }
        Ok(())
    }

    /// Returns the keys of a table that may be there more than once.
    fn list(&self, name: &str, schema: &Value) -> Result<Section, String> {
        let examples = self.lists.get(name).and_then(toml::Value::as_array);
        let examples = examples.into_iter().flatten().filter_map(toml::Value::as_table);
        let examples: Vec<Table> = examples.cloned().collect();
        let mut keys = Vec::new();
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            let full = format!("{name}.{key}");
            let meaning = text(property).ok_or(format!("{full} has no doc comment"))?;
            let example = examples.iter().find_map(|table| table.get(key).cloned());
            keys.push(self.key(full, property, meaning, example, schema)?);
        }
        let meaning = text(schema).ok_or(format!("{name} has no doc comment"))?;
        Ok(Section { name: name.to_owned(), meaning, keys, list: Some(examples) })
    }

    /// Returns the schema of the tables in a property that may be a list of them.
    fn items<'a>(&'a self, property: &'a Value) -> Option<&'a Value> {
        let schema = self.resolve(property);
        if let Some(choices) = schema["anyOf"].as_array() {
            return choices.iter().find_map(|choice| self.items(choice));
        }
        let items = self.resolve(&schema["items"]);
        (schema["type"] == "array" && items["type"] == "object").then_some(items)
    }

    /// Returns the schema that a reference leads to.
    fn resolve<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let named = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        named.and_then(|path| self.schema.pointer(path)).unwrap_or(schema)
    }

    /// Returns the schema of a property that is a table, present or not.
    fn table<'a>(&'a self, property: &'a Value) -> Option<&'a Value> {
        let choices = property["anyOf"].as_array().into_iter().flatten();
        let found = std::iter::once(property).chain(choices).map(|schema| self.resolve(schema));
        found.into_iter().find(|schema| schema["type"] == "object")
    }

    /// Returns a key of the table that `parent` describes.
    fn key(
        &self,
        name: String,
        property: &Value,
        meaning: String,
        example: Option<toml::Value>,
        parent: &Value,
    ) -> Result<Key, String> {
        let kind = self.kind(property).ok_or(format!("{name}: unknown type {property}"))?;
        let key = name.rsplit('.').next().unwrap_or_default();
        let mut required = parent["required"].as_array().into_iter().flatten();
        let default = match &property["default"] {
            Value::Null if required.any(|name| name == key) => "required".to_owned(),
            Value::Null => "none".to_owned(),
            value => format!("`{value}`"),
        };
        if example.is_none() {
            return Err(format!("{EXAMPLES} have no example of {name}"));
        }
        Ok(Key { name, kind, default, meaning, example })
    }

    /// Returns the value of a key in the examples. The first agent there stands for all of them.
    fn example(&self, name: &str) -> Option<toml::Value> {
        let mut table = &self.examples;
        let mut steps = name.split('.').peekable();
        while let Some(step) = steps.next() {
            let values = || table.values().filter_map(toml::Value::as_table);
            if step == "NAME" {
                let rest: Vec<_> = steps.collect();
                return values().find_map(|agent| {
                    rest.iter().try_fold(toml::Value::Table(agent.clone()), |value, step| {
                        value.get(step).cloned()
                    })
                });
            }
            let value = table.get(step)?;
            if steps.peek().is_none() {
                return Some(value.clone());
            }
            table = value.as_table()?;
        }
        None
    }

    fn kind(&self, property: &Value) -> Option<String> {
        let schema = self.resolve(property);
        if let Some(choices) = schema["anyOf"].as_array() {
            let kinds: Vec<String> =
                choices.iter().filter_map(|choice| self.kind(choice)).collect();
            return (!kinds.is_empty()).then(|| kinds.join(" or "));
        }
        if let Some(only) = schema["required"][0].as_str().filter(|_| schema["type"] == "object") {
            return Some(format!("`{{ {only} = \"…\" }}`"));
        }
        if self.items(schema).is_some() {
            return Some("tables".to_owned());
        }
        if let Some(words) = schema["enum"].as_array() {
            let words: Vec<_> = words.iter().filter(|word| !word.is_null()).collect();
            let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
            return Some(words.join(" or "));
        }
        if schema["pattern"].as_str().is_some_and(|pattern| pattern.contains("smhd")) {
            return Some("duration".to_owned());
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().find(|kind| *kind != "null")?,
            kind => kind,
        };
        Some(match kind.as_str()? {
            "string" => "text".to_owned(),
            "integer" => "whole number".to_owned(),
            "number" => "number".to_owned(),
            "boolean" => "`true` or `false`".to_owned(),
            "array" => format!("list of {}", self.kind(&schema["items"])?),
            _ => return None,
        })
    }
}

impl Section {
    fn write(&self, page: &mut String) {
        if self.keys.is_empty() {
            return;
        }
        let meaning = self.meaning.trim_end_matches('.');
        match (self.name.as_str(), &self.list) {
            ("", _) => *page += "\n## Outside of any table\n",
            (name, None) => _ = write!(page, "\n## `[{name}]`\n\n{meaning}.\n"),
            (name, Some(_)) => {
                _ = write!(page, "\n## `[[{name}]]`\n\n{meaning}. There can be several.\n");
            }
        }
        *page += "\n| key | type | default | meaning |\n|---|---|---|---|\n";
        for Key { name, kind, default, meaning, .. } in &self.keys {
            let name = name.rsplit('.').next().unwrap_or(name);
            let meaning = meaning.replace('|', "\\|");
            _ = writeln!(page, "| `{name}` | {kind} | {default} | {meaning} |");
        }
        *page += "\n```toml\n";
        if let Some(tables) = &self.list {
            self.write_tables(tables, page);
            return;
        }
        if !self.name.is_empty() {
            _ = writeln!(page, "[{}]", self.name.replace("NAME", "mine"));
        }
        for Key { name, example, .. } in &self.keys {
            let name = name.rsplit('.').next().unwrap_or(name);
            if let Some(example) = example {
                _ = writeln!(page, "{name} = {example}");
            }
        }
        *page += "```\n";
    }

    fn write_tables(&self, tables: &[Table], page: &mut String) {
        for (n, table) in tables.iter().enumerate() {
            let between = if n == 0 { "" } else { "\n" };
            _ = writeln!(page, "{between}[[{}]]", self.name);
            for Key { name, .. } in &self.keys {
                let name = name.rsplit('.').next().unwrap_or(name);
                if let Some(value) = table.get(name) {
                    _ = writeln!(page, "{name} = {value}");
                }
            }
        }
        *page += "```\n";
    }
}

fn text(schema: &Value) -> Option<String> {
    schema["description"].as_str().map(|text| text.replace('\n', " "))
}

/// Returns the variable that sets a key, as `config::key::variable` of the program does. A test
/// compares the two.
fn variable(key: &str) -> Option<String> {
    match key {
        "telemetry.port" => Some("HARNESS_ACP_PORT".to_owned()),
        _ if key.starts_with("agents.") => None,
        _ => Some(format!("HARNESS_{}", key.replace('.', "_").to_ascii_uppercase())),
    }
}

/// Returns a value as a variable holds it: without quotes, lists with commas.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        toml::Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(","),
        other => other.to_string(),
    }
}
