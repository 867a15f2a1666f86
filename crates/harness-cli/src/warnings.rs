//! The warnings of the library as lines for people: a minimal subscriber of `tracing`. Only
//! long-running commands have one; short commands print everything themselves.

use std::fmt::{Debug, Write as _};

use harness::process::Redactor;
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    level_filters::LevelFilter,
    span::{Attributes, Id, Record},
};

/// Passes every warning and error to `say`, one line each, until this process ends.
pub(crate) fn tell(secrets: Redactor, say: impl Fn(&str) + Send + Sync + 'static) {
    // An error means that a subscriber exists already, so nothing is lost.
    _ = tracing::subscriber::set_global_default(Warnings { secrets, say });
}

struct Warnings<F> {
    secrets: Redactor,
    say: F,
}

impl<F: Fn(&str) + Send + Sync + 'static> Subscriber for Warnings<F> {
    /// Only our own events are enabled. Those of other libraries are not for people.
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        *about.level() <= Level::WARN && about.target().starts_with("harness")
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::WARN)
    }

    fn event(&self, event: &Event<'_>) {
        let mut line = Line::default();
        event.record(&mut line);
        let text = format!("{}{}", line.message, line.fields);
        (self.say)(&crate::paint::one_line(&self.secrets.text(&text)));
    }

    // Spans are ignored.
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// The message, then all other fields as `, name: value`.
#[derive(Default)]
struct Line {
    message: String,
    fields: String,
}

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // A write to a string does not fail.
        _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name => write!(self.fields, ", {name}: {value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[test]
    fn warnings_of_ours_are_one_line_each_without_secrets() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let into = Arc::clone(&said);
        let secrets = Redactor::from_environment([("A_KEY".into(), "0123456789".into())]);
        let say = move |text: &str| into.lock().unwrap().push(text.to_owned());
        tracing::subscriber::with_default(Warnings { secrets, say }, || {
            let why = "key 0123456789\nis bad";
            tracing::warn!(target: "harness::agent", %why, seconds = 3, "it did not work");
            tracing::error!(target: "harness", "worse");
            tracing::info!(target: "harness", "nothing to tell");
            tracing::warn!(target: "other", "of somebody else");
        });
        let said = said.lock().unwrap();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("it did not work, why: key [redacted:A_KEY]"), "{said:?}");
        assert!(said[0].ends_with(", seconds: 3") && !said[0].contains('\n'), "{said:?}");
        assert_eq!(said[1], "worse");
    }
}
