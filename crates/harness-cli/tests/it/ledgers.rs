//! Ledgers that several tests use.

/// One task of each kind, with texts that a hostile repository might contain.
pub(crate) const MIXED: &str = r#"{
  "version": 2,
  "goal": "Users can log in\nand out",
  "tasks": [
    {"id": "task-001", "title": "Set up", "status": "completed", "attempts": 1,
     "completed_at": "2025-07-01T10:10:00Z", "claimed_by": "worker-a", "x-note": {"kept": [1, 2.50]}},
    {"id": "task-002", "title": "Login", "status": "in_progress", "priority": "P0",
     "depends_on": ["task-001"], "claimed_by": "worker-b", "claimed_at": "2025-07-01T10:00:00Z",
     "lease_expires_at": "2025-07-01T10:30:00Z", "epoch": 2,
     "validation": {"command": "cargo test login"},
     "started_at_commit": "0123456789abcdef0123456789abcdef01234567",
     "checkpoints": [{"step": 1, "total": 3, "description": "routes", "timestamp": "2025-07-01T10:10:00Z"}],
     "instructions": "POST /login\nsee src/routes\n", "role": "backend"},
    {"id": "task-003", "title": "Logout", "depends_on": ["task-001", "task-002"]},
    {"id": "task-004", "title": "Deploy \u001b[2Jnow\r\n\u202eback", "status": "failed", "attempts": 3,
     "depends_on": ["task-001"], "error_log": ["[TEST_FAIL] exit 1\u001b[31m"],
     "failed_at": "2025-07-01T11:00:00Z"},
    {"id": "task-005", "title": "Announce", "depends_on": ["task-004", "task-003"]},
    {"id": "task-006", "title": "Manual", "status": "failed", "attempts": 1,
     "depends_on": ["task-001"], "error_log": ["[TASK_EXEC] agent ended with 1"], "phase": "docs"},
    {"id": "task-007", "title": "Tidy up", "priority": "P2"}
  ],
  "session_count": 3,
  "last_session": "2025-07-01T12:00:00Z"
}
"#;

pub(crate) const LOG: &str = "\
[2025-07-01T10:00:00Z] [SESSION-0] INIT Harness initialized for project /srv/x
[2025-07-01T10:00:00Z] [SESSION-1] LOCK acquired (pid=12345)
[2025-07-01T10:00:00Z] [SESSION-1] Starting [task-001] Set up (base=abc1234)
[2025-07-01T10:10:00Z] [SESSION-1] Completed [task-001] (commit def5678)
somebody's own \u{1b}[2J note
[2025-07-01T11:00:00Z] [SESSION-2] ERROR [task-004] [TEST_FAIL] exit 1
[2025-07-01T11:00:00Z] [SESSION-2] LOCK released
";

/// Checks that a task on the wire begins with the published keys, in their order. More may follow.
#[track_caller]
pub(crate) fn assert_leads_with_wire_keys(task: &serde_json::Value) {
    let published = [
        "id",
        "description",
        "status",
        "dependencies",
        "started_at",
        "completed_at",
        "claimed_by",
        "timeout_seconds",
        "instructions",
        "role",
    ];
    let keys: Vec<_> = task.as_object().unwrap().keys().take(published.len()).collect();
    assert_eq!(keys, published);
}
