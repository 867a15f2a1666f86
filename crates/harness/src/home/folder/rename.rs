//! A rename that never replaces a file.

use std::os::fd::BorrowedFd;

use rustix::{fs::AtFlags, io::Errno};

type Fd<'a> = BorrowedFd<'a>;

pub(super) fn rename_noreplace(
    from: Fd<'_>,
    name: &str,
    to: Fd<'_>,
    other: &str,
) -> rustix::io::Result<()> {
    match renameat_noreplace(from, name, to, other) {
        // This system or this file system does not support it.
        Err(Errno::NOSYS | Errno::INVAL | Errno::NOTSUP) => link_over(from, name, to, other),
        done => done,
    }
}

#[cfg(any(target_vendor = "apple", target_os = "linux", target_os = "android"))]
fn renameat_noreplace(from: Fd<'_>, name: &str, to: Fd<'_>, other: &str) -> rustix::io::Result<()> {
    rustix::fs::renameat_with(from, name, to, other, rustix::fs::RenameFlags::NOREPLACE)
}

#[cfg(not(any(target_vendor = "apple", target_os = "linux", target_os = "android")))]
fn renameat_noreplace(_: Fd<'_>, _: &str, _: Fd<'_>, _: &str) -> rustix::io::Result<()> {
    Err(Errno::NOSYS)
}

/// Uses a link, which does not replace either. If the process is killed between the two steps, both
/// names stay, and the next call moves the one that is still here.
pub(super) fn link_over(
    from: Fd<'_>,
    name: &str,
    to: Fd<'_>,
    other: &str,
) -> rustix::io::Result<()> {
    rustix::fs::linkat(from, name, to, other, AtFlags::empty())?;
    rustix::fs::unlinkat(from, name, AtFlags::empty())
}
