//! A private PostgreSQL for tests, until standard input ends: `harness-postgres FOLDER`. It prints the
//! address of the server when that is ready.

use std::{io, path::Path, process::ExitCode};

use harness_sim::postgres::{Cluster, Programs};

fn main() -> ExitCode {
    let Some(folder) = std::env::args().nth(1) else {
        eprintln!("usage: harness-postgres FOLDER");
        return ExitCode::from(2);
    };
    let Some(programs) = Programs::find() else {
        eprintln!("no PostgreSQL is installed");
        return ExitCode::FAILURE;
    };
    match Cluster::start_in(Path::new(&folder), programs, "") {
        Ok(cluster) => {
            println!("{}", cluster.url());
            // The end of the pipe is also closed if the program that started this one died.
            _ = io::copy(&mut io::stdin(), &mut io::sink());
            drop(cluster);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("PostgreSQL cannot be started: {why}");
            ExitCode::FAILURE
        }
    }
}
