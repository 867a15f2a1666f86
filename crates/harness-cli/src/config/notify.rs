//! `notify` in the configuration: one command for every event, or a list of channels.

use std::{borrow::Cow, fmt};

use harness_core::notify::{QuietHours, Topic, masked};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// `notify = "COMMAND"`, or the tables `[[notify]]`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(crate) enum Notify {
    Command(String),
    Channels(Vec<NotifyChannel>),
}

/// A channel that tells you what happens
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NotifyChannel {
    /// How it sends
    pub(crate) kind: NotifyKind,
    /// Its name, for `harness notify`; none: its kind
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// The events that it is for; none: all of them
    #[serde(default = "every_event")]
    pub(crate) on: Vec<NotifyEvent>,
    /// A part of the day in which it sends nothing, such as "22:00-07:00"
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) quiet: Option<Quiet>,
    /// The command line, for `command`; it gets the message as JSON on stdin
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    /// The address, for all kinds but `command` and `desktop`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) url: Option<ValueSource>,
    /// The key that signs the messages of a `webhook`; from a variable or a file
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) secret: Option<ValueSource>,
    /// The topic, for `ntfy`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) topic: Option<ValueSource>,
    /// The token of a `telegram` bot or of an `ntfy` server; from a variable or a file
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<ValueSource>,
    /// The chat, for `telegram`
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) chat: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NotifyKind {
    Command,
    Webhook,
    Ntfy,
    Slack,
    Discord,
    Telegram,
    Desktop,
}

impl NotifyKind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Command => "command",
            Self::Webhook => "webhook",
            Self::Ntfy => "ntfy",
            Self::Slack => "slack",
            Self::Discord => "discord",
            Self::Telegram => "telegram",
            Self::Desktop => "desktop",
        }
    }

    /// Returns the keys that a channel of this kind needs, and those that it may have.
    const fn keys(self) -> (&'static [&'static str], &'static [&'static str]) {
        match self {
            Self::Command => (&["command"], &[]),
            Self::Webhook => (&["url"], &["secret"]),
            Self::Ntfy => (&["topic"], &["url", "token"]),
            Self::Slack | Self::Discord => (&["url"], &[]),
            Self::Telegram => (&["token", "chat"], &["url"]),
            Self::Desktop => (&[], &[]),
        }
    }
}

fn every_event() -> Vec<NotifyEvent> {
    Topic::ALL.into_iter().map(NotifyEvent).collect()
}

/// An event by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotifyEvent(pub(crate) Topic);

impl Serialize for NotifyEvent {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for NotifyEvent {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        let names = Topic::ALL.map(Topic::name).join(", ");
        Topic::named(&text)
            .map(Self)
            .ok_or_else(|| de::Error::custom(format!("unknown event {text:?}: one of {names}")))
    }
}

impl JsonSchema for NotifyEvent {
    fn schema_name() -> Cow<'static, str> {
        "NotifyEvent".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": Topic::ALL.map(Topic::name) })
    }
}

/// A part of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Quiet(pub(crate) QuietHours);

impl Serialize for Quiet {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Quiet {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        String::deserialize(d)?.parse().map(Self).map_err(de::Error::custom)
    }
}

impl JsonSchema for Quiet {
    fn schema_name() -> Cow<'static, str> {
        "Quiet".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let clock = "([01]?[0-9]|2[0-3]):[0-5][0-9]";
        json_schema!({ "type": "string", "pattern": format!("^{clock}-{clock}$") })
    }
}

/// Where a value is: in the text, in a variable or in a file. A text is shown as far as the host of
/// its address, because the rest of it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[serde(untagged)]
pub(crate) enum ValueSource {
    /// The value itself
    Text(String),
    /// The variable that has it
    Variable {
        /// The name of the variable
        env: String,
    },
    /// The file that has it
    File {
        /// An absolute path, or one that begins with `~/`
        file: String,
    },
}

impl Serialize for ValueSource {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Text(text) => s.serialize_str(&masked(text)),
            Self::Variable { env } => s.collect_map([("env", env)]),
            Self::File { file } => s.collect_map([("file", file)]),
        }
    }
}

impl<'de> Deserialize<'de> for ValueSource {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Source;
        impl<'de> de::Visitor<'de> for Source {
            type Value = ValueSource;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text in quotes, { env = \"NAME\" } or { file = \"PATH\" }")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<ValueSource, E> {
                Ok(ValueSource::Text(text.to_owned()))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<ValueSource, A::Error> {
                let wrong = || {
                    de::Error::custom("expected one of { env = \"NAME\" } and { file = \"PATH\" }")
                };
                let (key, value): (String, String) = map.next_entry()?.ok_or_else(wrong)?;
                let source = match key.as_str() {
                    "env" => ValueSource::Variable { env: value },
                    "file" => ValueSource::File { file: value },
                    _ => return Err(wrong()),
                };
                match map.next_key::<String>()? {
                    None => Ok(source),
                    Some(_) => Err(wrong()),
                }
            }
        }
        d.deserialize_any(Source)
    }
}

impl<'de> Deserialize<'de> for Notify {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Setting;
        impl<'de> de::Visitor<'de> for Setting {
            type Value = Notify;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a command in quotes, or tables [[notify]]")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Notify, E> {
                Ok(Notify::Command(text.to_owned()))
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Notify, A::Error> {
                let mut channels: Vec<NotifyChannel> = Vec::new();
                while let Some(channel) = seq.next_element::<NotifyChannel>()? {
                    if let Some(problem) = channel.problem() {
                        return Err(de::Error::custom(problem));
                    }
                    let name = channel.name.as_deref();
                    if name.is_some() && channels.iter().any(|other| other.name.as_deref() == name)
                    {
                        let name = name.unwrap_or_default();
                        return Err(de::Error::custom(format!("two channels are named {name:?}")));
                    }
                    channels.push(channel);
                }
                Ok(Notify::Channels(channels))
            }
        }
        d.deserialize_any(Setting)
    }
}

impl JsonSchema for Notify {
    fn schema_name() -> Cow<'static, str> {
        "Notify".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let channel = generator.subschema_for::<NotifyChannel>();
        json_schema!({ "anyOf": [{ "type": "string" }, { "type": "array", "items": channel }] })
    }
}

impl NotifyChannel {
    /// Returns the problem of a channel whose values do not fit together.
    fn problem(&self) -> Option<String> {
        let kind = self.kind.name();
        let given = [
            ("command", self.command.is_some()),
            ("url", self.url.is_some()),
            ("secret", self.secret.is_some()),
            ("topic", self.topic.is_some()),
            ("token", self.token.is_some()),
            ("chat", self.chat.is_some()),
        ];
        let (needed, allowed) = self.kind.keys();
        for (key, is_given) in given {
            if !is_given && needed.contains(&key) {
                return Some(format!("a channel of kind {kind:?} needs `{key}`"));
            }
            if is_given && !needed.contains(&key) && !allowed.contains(&key) {
                return Some(format!("a channel of kind {kind:?} takes no `{key}`"));
            }
        }
        for (key, source) in [("secret", &self.secret), ("token", &self.token)] {
            if matches!(source, Some(ValueSource::Text(_))) {
                return Some(format!(
                    "`{key}` must not be in this file: write {key} = {{ env = \"NAME\" }} or {{ file = \"PATH\" }}"
                ));
            }
        }
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        match &self.name {
            Some(name) if name.is_empty() || !name.chars().all(plain) => Some(
                "the name of a channel is made of letters, digits, `-`, `_` and `.`".to_owned(),
            ),
            _ if self.on.is_empty() => Some("`on` lists no event".to_owned()),
            _ => None,
        }
    }

    /// Returns the sources of its values, with their keys.
    pub(crate) fn sources(&self) -> impl Iterator<Item = (&'static str, &ValueSource)> {
        let all = [
            ("url", &self.url),
            ("secret", &self.secret),
            ("topic", &self.topic),
            ("token", &self.token),
        ];
        all.into_iter().filter_map(|(key, source)| Some((key, source.as_ref()?)))
    }
}

impl Notify {
    /// Returns the channels; none for a command.
    pub(crate) fn channels(&self) -> &[NotifyChannel] {
        match self {
            Self::Command(_) => &[],
            Self::Channels(channels) => channels,
        }
    }

    /// Returns the names of the variables that the channels read.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        let sources = self.channels().iter().flat_map(NotifyChannel::sources);
        sources.filter_map(|(_, source)| match source {
            ValueSource::Variable { env } => Some(env.as_str()),
            ValueSource::Text(_) | ValueSource::File { .. } => None,
        })
    }
}
