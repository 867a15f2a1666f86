//! The labels of workers, which tasks can require.

/// A label is a short word that people type.
const LABEL_BYTES_MAX: usize = 64;
/// A task that requires more of them is a mistake.
const LABELS_MAX: usize = 16;

/// Returns why a text cannot be a label.
pub fn problem_of_label(label: &str) -> Option<String> {
    let letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':' | '/');
    let begins = label.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    (label.len() > LABEL_BYTES_MAX || !begins || !label.chars().all(letter)).then(|| {
        format!("{label:?} is not 1 to {LABEL_BYTES_MAX} of A-Z a-z 0-9 . _ - : /, starting with a letter or digit")
    })
}

/// Returns the labels, each once and in a fixed order, or what is wrong with them.
pub fn checked_labels(labels: &[String]) -> Result<Vec<String>, String> {
    if let Some(problem) = labels.iter().find_map(|label| problem_of_label(label)) {
        return Err(problem);
    }
    let mut labels = labels.to_vec();
    labels.sort_unstable();
    labels.dedup();
    match labels.len() {
        0..=LABELS_MAX => Ok(labels),
        many => Err(format!("{many} labels, and at most {LABELS_MAX} are allowed")),
    }
}
