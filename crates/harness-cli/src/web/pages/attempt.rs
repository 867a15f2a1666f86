//! One attempt: its diff, the transcript of its agents, the contexts and the receipt.

use harness::view::{AttemptStory, TaskStory};
use harness_core::{CommitId, TaskId, Timestamp};
use maud::{Markup, html};

use super::{
    Inner, Page, Showing, now,
    parts::{self, Tone},
    task,
};
use crate::{
    failure::Result,
    web::reader::{Reader, Sought},
};

/// The number of lines of a diff that are shown.
const DIFF_LINES: usize = 4000;

pub(super) fn page(
    reader: &Reader,
    showing: &Showing,
    id: &str,
    epoch: &str,
) -> Result<Sought<Inner>> {
    let (Ok(id), Ok(epoch)) = (TaskId::parse(id), epoch.parse::<u64>()) else {
        return Ok(Sought::Nothing);
    };
    let needs = reader.board()?.needs.len();
    let shown = reader.story(&id, |story, now| {
        let is_it = |attempt: &&AttemptStory| attempt.summary.epoch.is_some_and(|e| e.0 == epoch);
        let Some(attempt) = story.attempts.iter().find(is_it) else { return Ok(None) };
        let main = html! {
            section #attempt data-live="part" { (head(story, attempt, now)) }
            @if let Some(found) = &attempt.receipt {
                section #receipt { h2 { "Receipt" } div .card .pad { (task::receipt(found)) } }
            }
            @if let Some(output) = attempt.check_output.as_deref().filter(|text| !text.trim().is_empty()) {
                section #check { h2 { "What the check printed" } pre { (parts::shown(output)) } }
            }
            section #diff { (diff(reader, story, attempt, showing)) }
            section #transcript data-live="part" { (transcript(reader, attempt)) }
        };
        let title = format!("{} attempt {}", story.task_id, attempt.number);
        Ok(Some(Inner::of(Page::Tasks, needs, main).titled(title)))
    })?;
    Ok(match shown {
        Sought::Found(Some(inner)) => Sought::Found(inner),
        Sought::Found(None) | Sought::Nothing => Sought::Nothing,
    })
}

fn head(story: &TaskStory<'_>, attempt: &AttemptStory, now: Timestamp) -> Markup {
    let (tone, word) = task::outcome(attempt, story.detail.task);
    let summary = &attempt.summary;
    html! {
        p { (parts::task_link(&story.task_id)) " " span .quiet { (parts::first_line(&story.title)) } }
        div .page-head {
            h1 { "Attempt " (attempt.number) }
            (parts::chip(tone, word))
        }
        div .facts {
            span { (parts::agent(&summary.agent)) }
            span { "began " (parts::moment(summary.started_at, now)) }
            @if summary.spending.seconds > 0 { span { (parts::span(summary.spending.seconds)) } }
            (now::spent(&summary.spending))
            @if let Some(reason) = task::why_stopped(attempt) { span { (reason) } }
        }
        @for flag in &attempt.flags { p { (parts::chip(Tone::Warn, "look")) " " (parts::shown(flag)) } }
    }
}

/// The changes of the attempt from its base, or from the result of another attempt.
fn diff(
    reader: &Reader,
    story: &TaskStory<'_>,
    attempt: &AttemptStory,
    showing: &Showing,
) -> Markup {
    let other = story.attempts.iter().find(|other| other.number.to_string() == showing.choice.from);
    let from = match other {
        Some(other) => other.commit.as_ref(),
        None => attempt.base.as_ref(),
    };
    let others = story
        .attempts
        .iter()
        .filter(|other| other.number != attempt.number && other.commit.is_some());
    let epoch = attempt.summary.epoch.map(|epoch| epoch.to_string()).unwrap_or_default();
    let here = format!("task/{}/{epoch}", story.task_id);
    html! {
        h2 {
            "Diff"
            small { @match other { Some(other) => { "from attempt " (other.number) } None => "from its base" } }
        }
        @if attempt.commit.is_some() {
            p .facts {
                @if other.is_some() { a href=(format!("{here}#diff")) { "from its base" } }
                @for other in others { a href=(format!("{here}?from={}#diff", other.number)) { "from attempt " (other.number) } }
            }
        }
        @match (from, &attempt.commit) {
            (Some(from), Some(to)) => (patch(reader, from, to)),
            _ => div .card { p .empty { "Nothing of it was kept: it changed no file, or it has not ended yet." } }
        }
    }
}

fn patch(reader: &Reader, from: &CommitId, to: &CommitId) -> Markup {
    match reader.diff(from, to) {
        Ok(text) => lines(&text),
        Err(why) => html! { div .card { p .empty { (parts::shown(&why.error)) } } },
    }
}

fn lines(text: &str) -> Markup {
    let count = text.lines().count();
    html! {
        pre .diff .wide tabindex="0" {
            @for line in text.lines().take(DIFF_LINES) {
                span class=(class(line)) { (parts::shown(line)) "\n" }
            }
        }
        @if count > DIFF_LINES { p .quiet { (count - DIFF_LINES) " more lines" } }
        @if count == 0 { p .quiet { "No file differs." } }
    }
}

fn class(line: &str) -> &'static str {
    match line {
        l if l.starts_with("diff ") => "file",
        l if l.starts_with("+++") || l.starts_with("---") => "same",
        l if l.starts_with('+') => "add",
        l if l.starts_with('-') => "del",
        l if l.starts_with("@@") => "at",
        _ => "same",
    }
}

fn transcript(reader: &Reader, attempt: &AttemptStory) -> Markup {
    html! {
        h2 { "Transcript" }
        @if attempt.iterations.is_empty() { div .card { p .empty { "There is none." } } }
        @for iteration in &attempt.iterations {
            div .card .pad .need {
                @if attempt.iterations.len() > 1 {
                    div .line {
                        h3 .grow { "Context " (iteration.number) }
                        @if let Some(ending) = iteration.ending { span .quiet { (ending) } }
                    }
                }
                @match iteration.transcript.as_deref().map(|path| reader.transcript(path)) {
                    Some(Ok(lines)) => (talk(&lines)),
                    Some(Err(why)) => p .quiet { (parts::shown(&why.error)) },
                    None => p .quiet { "It has no transcript." }
                }
            }
        }
    }
}

/// The words and the tool calls. Results of failed calls are unfolded.
fn talk(lines: &[String]) -> Markup {
    html! {
        div .talk {
            @for line in lines {
                @match line.as_bytes().first() {
                    Some(b'>' | b'<' | b'=') => p .tool { (parts::shown(line)) },
                    Some(b'!') => p .tool .bad { (parts::shown(line)) },
                    _ => p .said { (parts::shown(line)) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_is_text_with_colours() {
        let text =
            lines("diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-<b>\n+<i>\n").into_string();
        for part in [
            "class=\"file\"",
            "class=\"at\"",
            "class=\"del\">-&lt;b&gt;",
            "class=\"add\">+&lt;i&gt;",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }
}
