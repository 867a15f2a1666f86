//! A tool: its name, its arguments, and its effect on the ledger.

use harness::shell::Cancel;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{
    environment::Environment,
    failure::{Failure, Result},
    interrupt::Interrupt,
    invocation::Invocation,
    render::{ColorWhen, Out},
};

/// The arguments of a tool. An agent reads the doc comment of the type as the description of the
/// tool, and those of the fields as the descriptions of the arguments.
pub(super) trait Call: DeserializeOwned + JsonSchema {
    const NAME: &'static str;
    const EFFECT: Effect;
    /// The thing that a slow tool waits for.
    const WAITS_FOR: Option<&'static str> = None;

    fn call(self, invocation: &Invocation) -> Result<Answer>;
}

/// The effect of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Reads,
    /// A repeated call adds one more.
    Adds,
    /// A repeated call changes nothing more.
    Settles,
    /// It may archive earlier content.
    Replaces,
}

/// The result of a call for an agent.
#[derive(Debug)]
pub(super) enum Answer {
    Text(String),
    Data(Value),
}

impl Answer {
    pub(super) fn data(data: &impl serde::Serialize) -> Result<Self> {
        Ok(Self::Data(serde_json::to_value(data)?))
    }
}

pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) description: String,
    pub(super) schema: Map<String, Value>,
    pub(super) effect: Effect,
    pub(super) waits_for: Option<&'static str>,
    call: fn(&Invocation, Map<String, Value>) -> Result<Answer>,
}

impl Tool {
    pub(super) fn of<T: Call>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
        let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        let mut schema = match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        };
        let description = schema.remove("description").unwrap_or_default();
        schema.retain(|key, _| key != "$schema" && key != "title");
        // Some clients need `properties` even if there are no arguments.
        let properties = schema.entry("properties").or_insert_with(|| Map::new().into());
        properties.as_object_mut().into_iter().flatten().for_each(|(_, field)| plain(field));
        Self {
            name: T::NAME,
            // The lines of a doc comment are one paragraph.
            description: description.as_str().unwrap_or_default().replace('\n', " "),
            schema,
            effect: T::EFFECT,
            waits_for: T::WAITS_FOR,
            call: |invocation, arguments| read::<T>(arguments)?.call(invocation),
        }
    }

    /// Calls the tool. It blocks until the end, or until `stop`.
    pub(super) fn call(
        &self,
        env: &Environment,
        stop: Cancel,
        arguments: Map<String, Value>,
    ) -> Result<Answer> {
        let invocation = Invocation {
            // Standard output belongs to the protocol, so no command writes there.
            out: Out::new(ColorWhen::Never, env),
            env: env.clone(),
            plain: true,
            interrupt: Interrupt::Request(stop),
        };
        (self.call)(&invocation, arguments)
    }
}

/// Removes null from the types and defaults of a field, because it does not help a model.
fn plain(field: &mut Value) {
    let Some(field) = field.as_object_mut() else { return };
    if let Some(Value::String(text)) = field.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if field.get("default").is_some_and(Value::is_null) {
        field.remove("default");
    }
    if let Some(Value::Array(types)) = field.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            field["type"] = only.clone();
        }
    }
}

fn read<T: Call>(arguments: Map<String, Value>) -> Result<T> {
    serde_json::from_value(Value::Object(arguments)).map_err(|why| {
        Failure::usage(format!("{}: {why}", T::NAME)).hint("see the schema of the tool")
    })
}
