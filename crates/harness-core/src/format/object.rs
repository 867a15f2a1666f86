//! A JSON object whose values stay text. A value that is not asked for is never parsed, so we
//! cannot change it by accident: a number with more digits than a float has, an escape that we
//! would write in another way, nesting that exceeds the limit of a parser.

use std::fmt;

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize, de};
use serde_json::value::{RawValue, to_raw_value};

#[derive(Debug, Clone, Default)]
pub(super) struct Object(IndexMap<String, Box<RawValue>>);

impl Object {
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.0.get(key).map(|raw| raw.get())
    }

    /// Returns the value under `key` if it has this shape.
    pub(super) fn read<T: de::DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.get(key).and_then(|json| serde_json::from_str(json).ok())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, raw)| (key.as_str(), raw.get()))
    }

    /// Sets a field of the published format, which is always present. An existing key keeps its
    /// place.
    pub(super) fn put(&mut self, key: &str, value: impl Serialize) {
        self.0.insert(key.to_owned(), raw(value));
    }

    /// Sets a field of ours, which is present only if it has a value.
    pub(super) fn ours(&mut self, key: &str, value: Option<impl Serialize>) {
        match value {
            Some(value) => self.put(key, value),
            None => {
                self.0.shift_remove(key);
            }
        }
    }

    /// Changes the object under `key`. It is created if it does not exist.
    pub(super) fn child(&mut self, key: &str, change: impl FnOnce(&mut Self)) {
        let mut child = self.read::<Self>(key).unwrap_or_default();
        change(&mut child);
        self.put(key, child);
    }

    /// Removes a field, if it is present.
    pub(super) fn remove(&mut self, key: &str) {
        self.0.shift_remove(key);
    }

    pub(super) fn json(&self) -> String {
        raw(self).get().to_owned()
    }
}

/// Serializes a value. This cannot fail for what we write: all keys are strings, and no writer is
/// involved.
pub(super) fn raw(value: impl Serialize) -> Box<RawValue> {
    to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

impl Serialize for Object {
    fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_map(&self.0)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> de::Visitor<'de> for Entries {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut entries = IndexMap::new();
                while let Some((key, value)) = map.next_entry()? {
                    entries.insert(key, value);
                }
                Ok(Object(entries))
            }
        }
        d.deserialize_map(Entries)
    }
}
