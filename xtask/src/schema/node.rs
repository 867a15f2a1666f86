//! A schema as a tree of fields, built from paths such as `phases[].gate.command`.

use serde_json::{Map, Value, json};

/// What is known of one field.
pub(super) struct Field<'a> {
    /// The path: `a.b` is a key, `a[].b` a key of each item, `a{}.b` a key of each value.
    pub(super) path: String,
    /// The type, in the notation of [`shape`].
    pub(super) kind: &'a str,
    pub(super) presence: Presence,
    pub(super) meaning: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
    /// The field may be missing or null.
    Nullable,
}

/// Returns whether an object may have keys that the schema does not know.
#[derive(Clone, Copy)]
pub(super) enum Others {
    Allowed,
    Refused,
}

#[derive(Default)]
struct Node {
    own: Map<String, Value>,
    required: Vec<String>,
    children: Vec<(String, Node)>,
    nullable: bool,
}

/// Builds the schema of an object with these fields.
pub(super) fn object(fields: &[Field<'_>], others: Others) -> Result<Value, String> {
    let mut root = Node::default();
    root.own.insert("type".into(), json!("object"));
    for field in fields {
        let mut node = &mut root;
        let mut steps = field.path.split('.').peekable();
        while let Some(step) = steps.next() {
            if steps.peek().is_none() && field.presence == Presence::Required {
                node.required.push(step.to_owned());
            }
            node = node.child(step);
        }
        node.own.extend(shape(field.kind).map_err(|why| format!("{}: {why}", field.path))?);
        node.nullable = field.presence == Presence::Nullable;
        if !field.meaning.is_empty() {
            node.own.insert("description".into(), json!(field.meaning));
        }
    }
    Ok(root.schema(others))
}

impl Node {
    fn child(&mut self, step: &str) -> &mut Self {
        let at = self.children.iter().position(|(name, _)| name == step);
        let at = at.unwrap_or_else(|| {
            self.children.push((step.to_owned(), Self::default()));
            self.children.len() - 1
        });
        &mut self.children[at].1
    }

    /// Returns the schema of the fields that `steps` name, below this one.
    fn properties(&self, ending: &str, others: Others) -> Map<String, Value> {
        let named = self.children.iter().filter(|(name, _)| {
            if ending.is_empty() { !name.ends_with([']', '}']) } else { name.ends_with(ending) }
        });
        named.map(|(name, node)| (name.clone(), node.schema(others))).collect()
    }

    fn schema(&self, others: Others) -> Value {
        let mut schema = self.own.clone();
        let mut properties = self.properties("", others);
        // The fields of items are in a sibling, `name[]` or `name{}`.
        for (ending, key) in [("[]", "items"), ("{}", "additionalProperties")] {
            for (name, inner) in self.properties(ending, others) {
                let name = name.trim_end_matches(ending);
                if let Some(Value::Object(outer)) = properties.get_mut(name) {
                    outer.insert(key.into(), inner);
                }
            }
        }
        if !properties.is_empty() {
            schema.entry("type").or_insert_with(|| json!("object"));
            schema.insert("properties".into(), Value::Object(properties));
            if !self.required.is_empty() {
                schema.insert("required".into(), json!(self.required));
            }
            if matches!(others, Others::Refused) {
                schema.insert("additionalProperties".into(), json!(false));
            }
        }
        if self.nullable {
            or_null(&mut schema);
        }
        Value::Object(schema)
    }
}

fn or_null(schema: &mut Map<String, Value>) {
    if let Some(Value::String(kind)) = schema.get("type").cloned() {
        schema.insert("type".into(), json!([kind, "null"]));
    }
    if let Some(Value::Array(values)) = schema.get_mut("enum") {
        values.push(Value::Null);
    }
}

/// Returns the schema of a type: `text`, `integer`, `number`, `boolean`, `time`, `id`, `commit`,
/// `object`, `any`, `list of T`, or words with `or` between them. A `?` at its end allows null.
pub(super) fn shape(kind: &str) -> Result<Map<String, Value>, String> {
    if let Some(kind) = kind.strip_suffix('?') {
        let mut schema = shape(kind)?;
        or_null(&mut schema);
        return Ok(schema);
    }
    if let Some(item) = kind.strip_prefix("list of ") {
        let items = shape(item)?;
        return Ok(entries(json!({ "type": "array", "items": items })));
    }
    Ok(entries(match kind {
        "text" => json!({ "type": "string" }),
        "integer" => json!({ "type": "integer", "minimum": 0 }),
        "version" => json!({ "type": "integer", "minimum": 0, "maximum": 2 }),
        "count" => json!({ "type": "integer", "minimum": 1 }),
        "number" => json!({ "type": "number", "minimum": 0 }),
        "seconds" => json!({ "type": "number", "minimum": 1 }),
        "boolean" => json!({ "type": "boolean" }),
        "time" => json!({ "type": "string", "format": "date-time" }),
        "id" => json!({ "type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" }),
        "commit" => json!({ "type": "string", "pattern": "^([0-9a-f]{40}|[0-9a-f]{64})$" }),
        "object" | "objects by id" => json!({ "type": "object" }),
        "objects" => json!({ "type": "array" }),
        "one field" => json!({ "type": "object", "minProperties": 1, "maxProperties": 1 }),
        "any" => json!({}),
        words if words.contains(" or ") => {
            json!({ "type": "string", "enum": words.split(" or ").collect::<Vec<_>>() })
        }
        other => return Err(format!("unknown type {other:?}")),
    }))
}

fn entries(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
