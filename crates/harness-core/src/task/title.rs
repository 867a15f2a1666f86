//! The limits of a title.

/// A title is a line that people read in lists.
const TITLE_CHARS_MAX: usize = 500;

/// Returns why a text cannot be the title of a task.
pub(crate) fn problem_of_title(title: &str) -> Option<String> {
    if title.trim().contains(['\n', '\r']) {
        return Some("must be one line; the rest belongs into the instructions".to_owned());
    }
    let length = title.chars().count();
    (length > TITLE_CHARS_MAX)
        .then(|| format!("has {length} characters, and at most {TITLE_CHARS_MAX} are allowed"))
}
