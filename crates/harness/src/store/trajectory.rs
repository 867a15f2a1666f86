//! The facts in the trajectory of a root.

use std::io;

use harness_core::{Fact, Timestamp};

use super::{
    disk::{Disk, File},
    log_tail,
};

/// Appends facts that became true. Without any, nothing is touched.
pub(super) fn tell(disk: &dyn Disk, now: Timestamp, facts: &[Fact]) -> io::Result<()> {
    let lines: String = facts.iter().map(|fact| format!("{}\n", fact.trajectory(now))).collect();
    if lines.is_empty() {
        return Ok(());
    }
    disk.ensure_home()?;
    log_tail::end_line(disk, File::Trajectory)?;
    disk.append(File::Trajectory, lines.as_bytes())
}
