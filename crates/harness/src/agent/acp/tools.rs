//! Tool calls, assembled from the pieces in which they are reported.

use std::collections::BTreeMap;

use harness_core::agent::AgentEvent;
use serde_json::{Value, json};

use super::{
    permission::Claim,
    update::{Status, ToolCall},
};
use crate::{agent::supervise::Voice, queue::BoundedQueue};

/// The limit of calls at the same time. No real work has more.
const OPEN_MAX: usize = 1024;
/// The number of ended calls that are remembered, because further reports about them may come.
const ENDED_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Tools {
    open: BTreeMap<String, Call>,
    ended: BoundedQueue<String>,
}

impl Default for Tools {
    fn default() -> Self {
        Self { open: BTreeMap::new(), ended: BoundedQueue::new(ENDED_MAX) }
    }
}

#[derive(Debug, Default)]
struct Call {
    name: Option<String>,
    title: Option<String>,
    input: Option<Value>,
    output: Option<Value>,
    claim: Claim,
    is_told: bool,
}

impl Tools {
    pub(super) fn are_running(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns the information about a running call.
    pub(super) fn claim(&self, id: &str) -> Option<&Claim> {
        self.open.get(id).map(|call| &call.claim)
    }

    pub(super) fn take(&mut self, piece: ToolCall, voice: &Voice<'_>) {
        if self.ended.iter().any(|ended| *ended == piece.id) {
            return;
        }
        let known = self.open.contains_key(&piece.id);
        let is_first = piece.is_new || piece.status.is_some();
        if !known && (!is_first || self.open.len() >= OPEN_MAX) {
            return;
        }
        let id = piece.id.clone();
        let status = piece.status;
        let call = self.open.entry(id.clone()).or_default();
        call.add(piece);
        let is_over = matches!(status, Some(Status::Completed | Status::Failed));
        let is_begun = is_over || call.input.is_some() || status == Some(Status::InProgress);
        if is_begun {
            call.tell_start(voice);
        }
        if is_over && let Some(call) = self.open.remove(&id) {
            call.tell_end(status == Some(Status::Failed), voice);
            self.ended.push(id);
        }
    }
}

impl Call {
    fn add(&mut self, piece: ToolCall) {
        self.name = self.name.take().or(piece.name);
        self.title = piece.title.or(self.title.take());
        self.input = piece.input.or(self.input.take());
        self.output = piece.output.or(self.output.take());
        self.claim = piece.claim.or(Some(&self.claim));
    }

    fn name(&self) -> String {
        self.name.clone().or_else(|| self.title.clone()).unwrap_or_else(|| "tool".to_owned())
    }

    fn tell_start(&mut self, voice: &Voice<'_>) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let title = || self.title.as_ref().map(|title| json!({ "title": title }));
        let input = self.input.clone().or_else(title).map(|input| voice.value(&input));
        voice.tell(AgentEvent::ToolStart { name: voice.text(&self.name()), input });
    }

    fn tell_end(self, is_error: bool, voice: &Voice<'_>) {
        let result = self.output.as_ref().map(|output| voice.value(output));
        voice.tell(AgentEvent::ToolEnd { name: voice.text(&self.name()), result, is_error });
    }
}
