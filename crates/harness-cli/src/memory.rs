//! How memory is allocated. The threads of this program mostly wait, and a heap for each of them
//! would stay resident for nothing.
#![allow(unsafe_code, reason = "the C library has no other way to set this")]

/// Lets all threads share one heap. It must be called before a second thread starts.
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
