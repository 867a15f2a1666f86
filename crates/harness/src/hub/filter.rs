//! The filter of a subscription.

/// `*`, an exact type, a prefix with a trailing star, or any of several.
///
/// ```
/// use harness::hub::Filter;
///
/// let filter = Filter::from(["agent:*", "harness:complete"]);
/// assert!(filter.matches("agent:tool:start"));
/// assert!(!filter.matches("harness:start"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(Vec<Pattern>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    All,
    Exactly(String),
    Prefix(String),
}

impl Filter {
    /// Accepts every event, as `*` does.
    pub fn all() -> Self {
        Self(vec![Pattern::All])
    }

    /// Returns whether it accepts events of this [kind](crate::Event::kind).
    pub fn matches(&self, kind: &str) -> bool {
        self.0.iter().any(|pattern| match pattern {
            Pattern::All => true,
            Pattern::Exactly(wanted) => wanted == kind,
            Pattern::Prefix(prefix) => kind.starts_with(prefix.as_str()),
        })
    }
}

impl From<&str> for Filter {
    fn from(text: &str) -> Self {
        Self(vec![match text.strip_suffix('*') {
            Some("") => Pattern::All,
            Some(prefix) => Pattern::Prefix(prefix.to_owned()),
            None => Pattern::Exactly(text.to_owned()),
        }])
    }
}

impl<T: AsRef<str>> From<&[T]> for Filter {
    fn from(texts: &[T]) -> Self {
        Self(texts.iter().flat_map(|t| Self::from(t.as_ref()).0).collect())
    }
}

impl<T: AsRef<str>, const N: usize> From<[T; N]> for Filter {
    fn from(texts: [T; N]) -> Self {
        Self::from(&texts[..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_match_by_type() {
        for (filter, kind, wanted) in [
            (Filter::from("*"), "anything", true),
            (Filter::from("agent:*"), "agent:start", true),
            (Filter::from("agent:*"), "agent:tool:start", true),
            (Filter::from("agent:*"), "harness:start", false),
            (Filter::from("agent:"), "agent:start", false),
            (Filter::from("agent:start"), "agent:start", true),
            (Filter::from("agent:start"), "agent:started", false),
            (Filter::from(["agent:*", "harness:*"]), "harness:start", true),
            (Filter::from(["agent:*", "harness:*"]), "task:start", false),
        ] {
            assert_eq!(filter.matches(kind), wanted, "{filter:?} {kind}");
        }
    }
}
