//! How memory is used by this process. A run and a daemon live long and mostly wait, so they keep
//! little of what only their start needed.
#![allow(unsafe_code, reason = "the C library has no other way to ask for this")]

/// Lets all threads share one heap. Their threads mostly wait, and a heap for each of them would
/// stay resident. It must be called before a second thread starts.
pub(crate) fn share_one_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        /// `M_ARENA_MAX` of `malloc.h`.
        const ARENA_MAX: std::ffi::c_int = -8;
        // SAFETY: the signature is that of the manual page mallopt(3), and any argument is allowed.
        unsafe extern "C" {
            safe fn mallopt(parameter: std::ffi::c_int, value: std::ffi::c_int) -> std::ffi::c_int;
        }
        // If the setting is refused, only more memory is used.
        let _ = mallopt(ARENA_MAX, 1);
    }
}

/// Gives back the pages of the program file that only the start needed: the parser of arguments,
/// the relocations, and what the system mapped around them. Pages that are needed again are mapped
/// again from the file.
pub(crate) fn give_back_start() {
    #[cfg(target_os = "linux")]
    for (start, bytes) in linux::code_of_this_program().unwrap_or_default() {
        linux::give_back(start, bytes);
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        ffi::{c_int, c_void},
        fs, io,
    };

    /// `MADV_DONTNEED` of `sys/mman.h`, the same on all architectures.
    const DONT_NEED: c_int = 4;

    // SAFETY: the signature is that of the manual page madvise(2).
    unsafe extern "C" {
        fn madvise(start: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    }

    /// Returns the starts and lengths of the segments of this program that nothing ever writes to:
    /// the code, and the segment at the beginning of the file. The loader writes relocations only
    /// to others.
    pub(super) fn code_of_this_program() -> io::Result<Vec<(usize, usize)>> {
        let program = fs::read_link("/proc/self/exe")?;
        let maps = fs::read_to_string("/proc/self/maps")?;
        Ok(maps.lines().filter_map(|line| segment(line, program.to_str()?)).collect())
    }

    /// Reads a line of `/proc/PID/maps`.
    fn segment(line: &str, program: &str) -> Option<(usize, usize)> {
        let mut fields = line.splitn(6, ' ');
        let (range, access, offset) = (fields.next()?, fields.next()?, fields.next()?);
        let path = fields.nth(2)?.trim_start();
        let unwritten = access == "r-xp" || (access == "r--p" && offset.bytes().all(|b| b == b'0'));
        if path != program || !unwritten {
            return None;
        }
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let start = address(start)?;
        Some((start, address(end)?.checked_sub(start)?))
    }

    pub(super) fn give_back(start: usize, bytes: usize) {
        // SAFETY: the range is a segment of this program, which stays mapped for its whole life. It
        // is never written, so all of its pages are equal to the file, and the next access of any
        // thread maps them again.
        let _ = unsafe { madvise(start as *mut c_void, bytes, DONT_NEED) };
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn only_segments_that_nothing_writes_to_are_chosen() {
            let of = |line| segment(line, "/bin/a b");
            assert_eq!(of("1000-3000 r-xp 00001000 fe:00 42    /bin/a b"), Some((0x1000, 0x2000)));
            assert_eq!(of("1000-3000 r--p 00000000 fe:00 42    /bin/a b"), Some((0x1000, 0x2000)));
            for other in [
                "1000-3000 r--p 00002000 fe:00 42    /bin/a b",
                "1000-3000 rw-p 00000000 fe:00 42    /bin/a b",
                "1000-3000 r-xp 00001000 fe:00 42    /bin/a",
                "1000-3000 r-xp 00000000 00:00 0 ",
                "",
            ] {
                assert_eq!(of(other), None, "{other}");
            }
        }

        #[test]
        fn a_program_continues_without_the_pages_of_its_start() {
            let code = code_of_this_program().unwrap();
            assert_eq!(code.len(), 2, "{code:?}");
            code.into_iter().for_each(|(start, bytes)| give_back(start, bytes));
            assert_eq!(code_of_this_program().unwrap().len(), 2);
        }
    }
}
