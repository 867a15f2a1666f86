//! Calls that block, beside the runtime.

use std::cell::Cell;

use tokio::task::JoinError;

thread_local! {
    static IN_ORDER: Cell<bool> = const { Cell::new(false) };
}

/// Runs `act` on a thread that may block.
pub async fn blocking<T: Send + 'static>(
    act: impl FnOnce() -> T + Send + 'static,
) -> Result<T, JoinError> {
    if IN_ORDER.get() {
        tokio::task::yield_now().await;
        return Ok(act());
    }
    tokio::task::spawn_blocking(act).await
}

/// Runs `act`, which drives a runtime of this thread alone. Calls that block run on this thread too,
/// so that no scheduler decides about the order of anything. Simulators need that; in a program,
/// everything else would wait for each of these calls.
pub fn in_order<T>(act: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            IN_ORDER.set(self.0);
        }
    }
    let _before = Before(IN_ORDER.replace(true));
    act()
}
