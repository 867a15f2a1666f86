//! Much more output than memory.

use std::process::{Command, ExitCode};

use harness::process::{Job, JobEvent, Lines};

use crate::stage::{spec, within};

const GIBIBYTE: u64 = 1 << 30;
const KIBIBYTES_MAX: u64 = 64 * 1024;

/// This runs in its own process, because the peak covers everything that a process ever did.
pub(crate) fn a_gibibyte_takes_no_memory() {
    let out = Command::new(std::env::current_exe().unwrap()).arg("__flood").output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(out.status.success(), "{text}");
    let (bytes, rest) = text.trim().split_once(' ').unwrap();
    assert_eq!(bytes.parse(), Ok(GIBIBYTE));
    let (lines, peak) = rest.split_once(' ').unwrap();
    assert!(lines.parse::<u64>().unwrap() > 1_000_000);
    if cfg!(target_os = "linux") {
        let peak: u64 = peak.parse().unwrap();
        assert!(peak < KIBIBYTES_MAX, "{peak} KiB");
    }
}

/// Prints bytes, lines and the peak of its memory.
pub(crate) fn be_flooded() -> ExitCode {
    let script = "yes \"$(printf %0400d 0)\" | head -c 1073741824";
    let (bytes, lines) = within(async {
        let mut job = Job::start(spec(script)).await.unwrap();
        let (mut splitter, mut bytes, mut lines) = (Lines::default(), 0, 0);
        while let Some(event) = job.next().await {
            if let JobEvent::Output(chunk) = event {
                bytes += chunk.bytes.len() as u64;
                lines += splitter.push(&chunk.bytes).count() as u64;
            }
        }
        (bytes, lines)
    });
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or("0 kB");
    println!("{bytes} {lines} {}", peak.trim().trim_end_matches(" kB"));
    ExitCode::SUCCESS
}
