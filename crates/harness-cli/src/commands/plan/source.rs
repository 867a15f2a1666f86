//! The text that a plan is read from.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

use harness_core::plan::{Plan, PlanError};

use crate::{
    failure::{Failure, Result},
    paint::warn,
};

/// Where a plan is read from.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = false)]
pub(super) struct Source {
    /// The file that contains the plan; - is standard input
    #[arg(value_name = "FILE")]
    plan: Option<PathBuf>,
    /// The same
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
}

impl Source {
    /// Returns the file. Clap requires exactly one of the two.
    pub(super) fn file(&self) -> &Path {
        self.plan.as_deref().or(self.file.as_deref()).unwrap_or(Path::new("-"))
    }
}

/// The limit of one line on the wire.
const BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Returns the text of `file`, or of standard input for `-`.
pub(super) fn read(file: &Path) -> Result<String> {
    let bytes = if file == Path::new("-") {
        bounded("standard input", io::stdin().lock(), None)?
    } else {
        let opened = File::open(file).map_err(|why| match why.kind() {
            io::ErrorKind::NotFound => {
                Failure::error(format!("File not found: {}", file.display()))
            }
            _ => Failure::file("read", file, &why),
        })?;
        let size = opened.metadata().ok().filter(|found| found.is_file()).map(|found| found.len());
        bounded(&file.display().to_string(), opened, size)?
    };
    String::from_utf8(bytes)
        .map_err(|_| Failure::error(format!("{} is not UTF-8 text", file.display())))
}

/// Reads up to the limit. The size alone is not enough, because a pipe or a device has none.
fn bounded(name: &str, from: impl Read, size: Option<u64>) -> Result<Vec<u8>> {
    let too_large = |size: &str| {
        Failure::error(format!("{name} is too large: {size}; a plan has at most {BYTES_MAX} bytes"))
            .hint("split it, and import the parts with --merge")
    };
    if let Some(size) = size.filter(|size| *size > BYTES_MAX) {
        return Err(too_large(&format!("{size} bytes")));
    }
    let mut bytes = Vec::new();
    from.take(BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|why| Failure::error(format!("cannot read {name}: {why}")))?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(too_large(&format!("more than {BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        let failure = Self::error(error.to_string());
        match error {
            PlanError::Empty | PlanError::NoBlock => {
                failure.hint("`harness plan template` shows what a plan looks like")
            }
            PlanError::InvalidJson(_)
            | PlanError::Field { .. }
            | PlanError::MissingDependency { .. }
            | PlanError::Cycle(_) => failure,
        }
    }
}

/// Warns about the parts that were left out when the plan was read.
pub(super) fn warn_of(plan: &Plan) {
    plan.warnings.iter().for_each(|warning| warn(warning));
}

/// Returns the ids of tasks without a check.
pub(super) fn unchecked(plan: &Plan) -> Vec<String> {
    let unchecked = plan.tasks.iter().filter(|(_, task)| task.check().is_none());
    unchecked.map(|(id, _)| id.to_string()).collect()
}
