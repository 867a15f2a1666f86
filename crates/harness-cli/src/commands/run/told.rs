//! The log as it grows, on standard error: what a session does is what its log says.

use std::{
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use super::view::View;
use harness::home::Home;

use crate::{
    failure::{Failure, Result},
    render::visible,
};

pub(super) struct Told {
    root: PathBuf,
    view: Arc<View>,
    shown: Mutex<u64>,
}

impl Told {
    /// What is in the log already was told to somebody else.
    pub(super) fn from_here_on(root: &Path, view: Arc<View>) -> Result<Self> {
        let log = Home::of(root).log();
        let shown = match log.symlink_metadata() {
            Ok(found) => found.len(),
            Err(why) if why.kind() == io::ErrorKind::NotFound => 0,
            Err(why) => return Err(Failure::file("read", &log, &why)),
        };
        Ok(Self { root: root.to_owned(), view, shown: Mutex::new(shown) })
    }

    /// Shows the whole lines that have come since.
    pub(super) fn show(&self, warnings: &[String]) {
        warnings.iter().for_each(|warning| self.view.warning(warning));
        self.view.refresh(&self.root);
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let Ok(lines) = since(&self.root, *shown) else { return };
        let whole = lines.rfind('\n').map_or(0, |end| end + 1);
        *shown += u64::try_from(whole).unwrap_or(0);
        self.view.lines(&visible(&lines[..whole]));
    }
}

fn since(root: &Path, offset: u64) -> io::Result<String> {
    let Some(mut file) = harness::store::open_log(root)? else { return Ok(String::new()) };
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
