//! The whole output of an agent in files, for later analysis.

use std::{
    fs::File,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    pipes::{Chunk, OutputSource},
    redact::{Redactor, Stream},
};
use crate::home::folder::Folder;

/// Writes standard output to `<name>.log` and, if there is any, standard error to `<name>.err.log`.
/// If they were mixed, neither would be what the agent wrote. Only the owner can read them. Writes
/// go to the page cache and are quick. Only a possible start of a secret is kept in memory.
#[derive(Debug)]
pub struct Transcript {
    path: PathBuf,
    stdout: Part,
    stderr: Part,
}

/// The numbers of written and cut bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// The written bytes, with secrets replaced.
    pub written_bytes: u64,
    /// The discarded bytes beyond the limit.
    pub cut_bytes: u64,
}

#[derive(Debug)]
struct Part {
    folder: Arc<Folder>,
    path: PathBuf,
    name: String,
    /// The file, created with the first byte.
    file: Option<File>,
    stream: Stream,
    bytes_max: u64,
    written: Written,
}

impl Transcript {
    /// The limit of each file for an agent's execution: 256 MiB.
    pub const BYTES_MAX: u64 = 256 * 1024 * 1024;

    /// Creates a transcript. `bytes_max` applies to each of the two files. Existing files of the
    /// same name are replaced. No link is followed, even if the agent itself puts one in the place
    /// of a file that is not created yet.
    pub fn create(
        folder: &Path,
        name: &str,
        redactor: &Redactor,
        bytes_max: u64,
    ) -> io::Result<Transcript> {
        let opened = Arc::new(Folder::ours(folder)?);
        let part = |ending: &str| Part {
            folder: Arc::clone(&opened),
            path: folder.to_owned(),
            name: format!("{name}.{ending}"),
            file: None,
            stream: redactor.stream(),
            bytes_max,
            written: Written::default(),
        };
        let (mut stdout, stderr) = (part("log"), part("err.log"));
        stdout.open()?;
        if opened.has(&stderr.name)? {
            opened.remove(&stderr.name)?;
        }
        Ok(Transcript { path: folder.join(&stdout.name), stdout, stderr })
    }

    /// Returns the path of the file for standard output.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a chunk. A possible start of a secret waits for more, and bytes beyond the limit are
    /// only counted.
    pub fn write(&mut self, chunk: &Chunk) -> io::Result<()> {
        let part = match chunk.source {
            OutputSource::Stdout => &mut self.stdout,
            OutputSource::Stderr => &mut self.stderr,
        };
        let shown = part.stream.push(&chunk.bytes);
        part.write(&shown)
    }

    /// Writes the bytes that were held back, and the number of cut bytes.
    pub fn finish(self) -> io::Result<Written> {
        let (stdout, stderr) = (self.stdout.finish()?, self.stderr.finish()?);
        Ok(Written {
            written_bytes: stdout.written_bytes + stderr.written_bytes,
            cut_bytes: stdout.cut_bytes + stderr.cut_bytes,
        })
    }
}

impl Part {
    fn open(&mut self) -> io::Result<&mut File> {
        let file = match self.file.take() {
            Some(file) => file,
            None => match self.folder.create(&self.name) {
                // The agent has removed the folder.
                Err(gone) if gone.kind() == io::ErrorKind::NotFound => {
                    self.folder = Arc::new(Folder::ours(&self.path)?);
                    self.folder.create(&self.name)?
                }
                made => made?,
            },
        };
        Ok(self.file.insert(file))
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let room = self.bytes_max - self.written.written_bytes;
        let fits = usize::try_from(room).unwrap_or(usize::MAX).min(bytes.len());
        self.written.cut_bytes += (bytes.len() - fits) as u64;
        if fits > 0 {
            self.open()?.write_all(&bytes[..fits])?;
            self.written.written_bytes += fits as u64;
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<Written> {
        let stream = std::mem::replace(&mut self.stream, Redactor::default().stream());
        self.write(&stream.finish())?;
        let cut = self.written.cut_bytes;
        if cut > 0 {
            writeln!(self.open()?, "\n[harness: {cut} more bytes are not in this transcript]")?;
        }
        Ok(self.written)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    fn chunk(source: OutputSource, text: &str) -> Chunk {
        Chunk { source, bytes: text.as_bytes().to_vec() }
    }

    #[test]
    fn a_folder_that_the_agent_removed_is_made_again() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join(".harness/transcripts");
        let mut transcript =
            Transcript::create(&folder, "run", &Redactor::default(), 1000).unwrap();
        std::fs::remove_dir_all(place.path().join(".harness")).unwrap();
        let chunk = Chunk { source: OutputSource::Stderr, bytes: b"gone\n".to_vec() };
        transcript.write(&chunk).unwrap();
        transcript.finish().unwrap();
        assert_eq!(std::fs::read_to_string(folder.join("run.err.log")).unwrap(), "gone\n");
    }

    #[test]
    fn it_contains_no_secrets_and_others_cannot_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let redactor = Redactor::from_environment([("API_KEY".into(), "very-secret-value".into())]);
        let path = folder.path().join("run.log");
        std::fs::write(&path, "old").unwrap();
        let mut transcript = Transcript::create(folder.path(), "run", &redactor, 1000).unwrap();
        for (source, text) in [
            (OutputSource::Stdout, "say very-sec"),
            (OutputSource::Stderr, "oh very-secret-val"),
            (OutputSource::Stdout, "ret-value and more\n"),
            (OutputSource::Stderr, "ue\n"),
        ] {
            transcript.write(&chunk(source, text)).unwrap();
        }
        let written = transcript.finish().unwrap();
        let read = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert_eq!(read("run.log"), "say [redacted:API_KEY] and more\n");
        assert_eq!(read("run.err.log"), "oh [redacted:API_KEY]\n");
        assert_eq!(written.cut_bytes, 0);
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_link_that_the_agent_made_is_named_and_not_written_through() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join(".harness/transcripts");
        std::fs::create_dir(place.path().join(".harness")).unwrap();
        let precious = place.path().join("precious");
        std::fs::write(&precious, "mine").unwrap();
        let redactor = Redactor::default();
        let mut transcript = Transcript::create(&folder, "run", &redactor, 1000).unwrap();
        symlink(&precious, folder.join("run.err.log")).unwrap();
        let why = transcript.write(&chunk(OutputSource::Stderr, "text")).unwrap_err().to_string();
        assert!(why.starts_with(".harness/transcripts/run.err.log is a symbolic link"), "{why}");
        drop(transcript);
        symlink(&precious, folder.join("two.log")).unwrap();
        Transcript::create(&folder, "two", &redactor, 1000).unwrap_err();
        std::fs::rename(&folder, place.path().join("elsewhere")).unwrap();
        symlink(place.path().join("elsewhere"), &folder).unwrap();
        let why = Transcript::create(&folder, "three", &redactor, 1000).unwrap_err().to_string();
        assert!(why.starts_with(".harness/transcripts is a symbolic link"), "{why}");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "mine");
    }

    #[test]
    fn it_is_cut_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let mut transcript =
            Transcript::create(folder.path(), "run", &Redactor::default(), 4).unwrap();
        for _ in 0..3 {
            transcript.write(&chunk(OutputSource::Stdout, "abc")).unwrap();
        }
        let path = transcript.path().to_owned();
        let written = transcript.finish().unwrap();
        assert_eq!(written, Written { written_bytes: 4, cut_bytes: 5 });
        let text = std::fs::read_to_string(path).unwrap();
        assert_eq!(text, "abca\n[harness: 5 more bytes are not in this transcript]\n");
        assert!(!folder.path().join("run.err.log").exists());
    }
}
