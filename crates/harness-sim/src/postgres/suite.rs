//! A test program over the server that `cargo xtask test` starts.

use libtest_mimic::{Arguments, Trial};

use super::{TestServer, VARIABLE};

/// A test that needs a server.
pub type ServerTest = fn(&TestServer);

/// Runs these tests as a test program does, and ends it. Without a server they are counted as ignored,
/// and the program says so.
pub fn run_tests(all: Vec<(&'static str, ServerTest)>) -> ! {
    let arguments = Arguments::from_args();
    let server = TestServer::named();
    if server.is_none() && !arguments.list {
        eprintln!("NOT RUN: {} tests need PostgreSQL, and {VARIABLE} names no server", all.len());
        eprintln!("         `cargo xtask test` starts one for them");
    }
    let is_missing = server.is_none();
    let trials = all.into_iter().map(|(name, test)| {
        let server = server.clone();
        let run = move || {
            if let Some(server) = server {
                test(&server);
            }
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(is_missing)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit()
}
