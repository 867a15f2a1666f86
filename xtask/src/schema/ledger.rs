//! The ledger: its fields and their meaning are in two tables of PROTOCOL.md, their types are here.

use serde_json::Value;

use super::{
    document,
    node::{Field, Others, Presence, object},
};
use crate::page::Page;

const CATEGORY: &str =
    "ENV_SETUP or CONFIG or TASK_EXEC or TEST_FAIL or TIMEOUT or DEPENDENCY or SESSION_TIMEOUT";
const OF_THE_ROOT: &[(&str, &str)] = &[
    ("version", "version"),
    ("created", "time"),
    ("session_config", "object"),
    ("session_config.concurrency_mode", "exclusive or concurrent"),
    ("session_config.max_tasks_per_session", "integer"),
    ("session_config.max_sessions", "integer"),
    ("session_config.target_branch", "text"),
    ("session_config.target_remote", "text"),
    ("session_config.landed_branch", "text"),
    ("session_config.landed_why", "text"),
    ("tasks", "objects"),
    ("paused_at", "time"),
    ("session_count", "integer"),
    ("session_claims", "integer"),
    ("last_session", "time"),
    ("epoch", "integer"),
    ("unsettled", "object"),
    ("unsettled.after", "integer"),
    ("unsettled.until", "integer"),
    ("goal", "text"),
    ("phases", "objects"),
    ("phases[].name", "text"),
    ("phases[].gate", "object"),
    ("phases[].gate.command", "text"),
    ("phases[].gate.timeout_seconds", "integer"),
    ("phases[].approve", "boolean"),
    ("phases[].passed_at", "time"),
    ("phases[].claimed_by", "text"),
    ("phases[].lease_expires_at", "time"),
    ("needs", "list of text"),
    ("landing", "objects"),
    ("landing[].task", "id"),
    ("landing[].epoch", "integer"),
    ("landing[].onto", "commit"),
    ("landing[].commit", "commit"),
    ("landing[].green", "boolean"),
    ("landing[].renewed_at", "time"),
    ("alerts", "objects"),
    ("alerts[].time", "time"),
    ("alerts[].task", "id"),
    ("alerts[].message", "text"),
    ("log_tail", "list of text"),
    ("log_at", "integer"),
    ("revision", "integer"),
    ("transactions", "objects"),
    ("transactions[].by", "text"),
    ("transactions[].number", "integer"),
    ("seal", "text"),
];
const OF_A_TASK: &[(&str, &str)] = &[
    ("id", "id"),
    ("title", "text"),
    ("status", "pending or in_progress or completed or failed"),
    ("priority", "text"),
    ("depends_on", "list of id"),
    ("attempts", "integer"),
    ("max_attempts", "integer"),
    ("started_at_commit", "commit"),
    ("validation", "object"),
    ("validation.command", "text"),
    ("validation.timeout_seconds", "integer"),
    ("validation.clean", "boolean"),
    ("validation.baseline", "boolean"),
    ("on_failure", "object"),
    ("on_failure.cleanup", "text"),
    ("error_log", "list of text"),
    ("checkpoints", "objects"),
    ("checkpoints[].step", "integer"),
    ("checkpoints[].total", "integer"),
    ("checkpoints[].description", "text"),
    ("checkpoints[].timestamp", "time"),
    ("checkpoints[].tree", "commit"),
    ("completed_at", "time"),
    ("failed_at", "time"),
    ("claimed_by", "text"),
    ("claimed_at", "time"),
    ("lease_expires_at", "time"),
    ("epoch", "integer"),
    ("via", "run or client"),
    ("worktree", "text"),
    ("branch", "text"),
    ("base_untracked", "commit"),
    ("intent", "one field"),
    ("intent.rollback", "object"),
    ("intent.rollback.category", CATEGORY),
    ("intent.rollback.message", "text"),
    ("intent.land", "object"),
    ("intent.land.target", "text"),
    ("intent.land.from", "commit"),
    ("intent.land.to", "commit"),
    ("instructions", "text"),
    ("protected", "list of text"),
    ("requires", "list of text"),
    ("conflicts", "list of text"),
    ("source", "object"),
    ("source.kind", "text"),
    ("source.path", "text"),
    ("source.key", "text"),
    ("role", "text"),
    ("phase", "text"),
    ("timeout_seconds", "integer"),
    ("order", "integer"),
    ("flags", "list of text"),
    ("added_by", "text"),
];

pub(super) fn schema(protocol: &Page) -> Result<Value, String> {
    let mut fields = of_table(protocol, "### Fields of the root", "", OF_THE_ROOT)?;
    fields.extend(of_table(protocol, "### Fields of a task", "tasks[].", OF_A_TASK)?);
    let schema = object(&fields, Others::Allowed)?;
    Ok(document("harness-tasks.json", "The ledger of harness, version 2", schema))
}

/// Returns the fields of a table, each with its type.
fn of_table(
    protocol: &Page,
    heading: &str,
    prefix: &str,
    types: &[(&str, &'static str)],
) -> Result<Vec<Field<'static>>, String> {
    let rows = protocol.rows(heading);
    let field = |row: &Vec<String>| {
        let name = row[0].trim_matches('`');
        let kind = types.iter().find(|(known, _)| *known == name);
        let (_, kind) = kind.ok_or(format!("{name} has no type in xtask/src/schema/ledger.rs"))?;
        let presence = match row[1].as_str() {
            "an error" => Presence::Required,
            // One of several fields of which exactly one is there.
            "" => Presence::Optional,
            _ => Presence::Nullable,
        };
        let meaning = match row[1].as_str() {
            "an error" | "none" | "not set" | "" => row[2].clone(),
            absent if row[2].is_empty() => format!("If absent: {absent}"),
            absent => format!("{}. If absent: {absent}", row[2].trim_end_matches('.')),
        };
        Ok(Field { path: format!("{prefix}{name}"), kind, presence, meaning })
    };
    let fields: Vec<_> = rows.iter().map(field).collect::<Result<_, String>>()?;
    match types.iter().find(|(name, _)| !rows.iter().any(|row| row[0].trim_matches('`') == *name)) {
        Some((gone, _)) => Err(format!("{gone} is not in the table {heading:?} of PROTOCOL.md")),
        None => Ok(fields),
    }
}
