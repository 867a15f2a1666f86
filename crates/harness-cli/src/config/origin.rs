//! The origin of a value.

use std::{fmt, path::PathBuf};

use serde_json::{Value, json};

/// The origin of a value. A later variant takes precedence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Origin {
    BuiltIn,
    User { file: PathBuf, line: usize },
    Project { file: PathBuf, line: usize },
    Variable(String),
    Flag(String),
}

impl Origin {
    /// Returns the layer and the place in it, for programs.
    pub(crate) fn document(&self) -> Value {
        match self {
            Self::BuiltIn => json!({ "layer": "built_in" }),
            Self::User { file, line } => {
                json!({ "layer": "user", "file": file.to_string_lossy(), "line": line })
            }
            Self::Project { file, line } => {
                json!({ "layer": "project", "file": file.to_string_lossy(), "line": line })
            }
            Self::Variable(name) => json!({ "layer": "variable", "name": name }),
            Self::Flag(name) => json!({ "layer": "flag", "name": name }),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::User { file, line } | Self::Project { file, line } => {
                write!(f, "{}:{line}", file.display())
            }
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}
