//! The commands for developers of harness: `cargo xtask <command>`.

mod bench;
mod browser;
mod docs;
mod layers;
mod manifests;
mod names;
mod packages;
mod page;
mod plugin;
mod postgres;
mod real_agents;
mod recording;
mod reference;
mod run;
mod schema;
mod sim;
mod site;
mod source;
mod test;
mod tidy;
mod tools;
mod words;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <command>

  test             everything that must pass, with all the set-up it needs
  test --real-agents
                   the real agents, installed by npm below target/, against a scripted model
  test --packages  the packages of npm, Debian and Cargo: made, installed in scratch folders, and run
  package npm BINARY PLATFORM FOLDER | extras
                   the packages of npm around a binary; manual pages and completions for packages
  test --soak      three hosts with eight workers each over one PostgreSQL and one remote, while they are
                   killed, cut off and their server crashes, until 300 tasks have landed
  test --browser   the pages of `harness web`, in Debian's Chromium, which it installs
  tidy             rules of the house that no compiler checks
  sim [--seeds N] [--seed S]
                   the simulator over N seeds (default 1000), or one seed with its story
  bench [--quick]  ratios of cost, each against a yardstick measured in the same run
  docs [--check]   docs/cli.md, docs/configuration.md, schema/ and plugin/, or whether they are up to date
  docs --site      the documentation as a web site in target/site, by mdBook
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        ["test"] => test::test(),
        ["test", "--real-agents"] => real_agents::test(),
        ["test", "--packages"] => packages::test(),
        ["package", rest @ ..] => packages::package(rest),
        ["test", "--soak"] => test::soak(),
        ["test", "--browser"] => browser::test(),
        ["tidy"] => tidy::tidy(),
        ["sim", rest @ ..] => sim::sim(rest),
        ["bench", rest @ ..] => bench::bench(rest),
        ["docs", rest @ ..] => docs::docs(rest),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("xtask: {why}");
            ExitCode::FAILURE
        }
    }
}
