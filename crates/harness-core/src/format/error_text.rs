//! Parses an entry of `error_log` in the file, `[CATEGORY] message`. A person may have written any
//! other text.

use crate::{Category, task::ErrorEntry};

/// Parses the text of an entry.
pub(super) fn entry(text: &str) -> ErrorEntry {
    match split(text) {
        Some((category, message)) => {
            ErrorEntry::new(Some(category), message.strip_prefix(' ').unwrap_or(message))
        }
        None => ErrorEntry::new(None, text),
    }
}

/// Returns the category at the start of a text.
pub(super) fn category(text: &str) -> Option<Category> {
    split(text).map(|(category, _)| category)
}

fn split(text: &str) -> Option<(Category, &str)> {
    let (name, rest) = text.strip_prefix('[')?.split_once(']')?;
    Some((name.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{TaskId, task::FailureCause};

    #[test]
    fn every_text_is_an_entry_and_its_cause_is_recognised() {
        let other = TaskId::numbered(2);
        for (text, category, cause) in [
            ("[TEST_FAIL] exit code 1", Some(Category::TestFail), FailureCause::Attempt),
            ("[DEPENDENCY] Blocked by failed task-002", None, FailureCause::Dependency(other)),
            ("[DEPENDENCY] Blocked by failed ../x", None, FailureCause::Graph),
            ("[DEPENDENCY] Circular dependency detected: a -> a", None, FailureCause::Graph),
            ("[SESSION_TIMEOUT] Lease expired (claimed_by=w)", None, FailureCause::Lease),
            ("[SESSION_TIMEOUT] No progress detected", None, FailureCause::Attempt),
            ("it broke", None, FailureCause::Attempt),
            ("[ODD] it broke", None, FailureCause::Attempt),
            ("Lease expired", None, FailureCause::Attempt),
            ("", None, FailureCause::Attempt),
        ] {
            let entry = entry(text);
            assert_eq!((entry.to_string().as_str(), &entry.cause), (text, &cause));
            assert!(category.is_none() || entry.category == category, "{text}");
        }
        assert_eq!(category("[DEPENDENCY]without a space"), Some(Category::Dependency));
    }
}
