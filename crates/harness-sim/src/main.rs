//! `harness-sim [--seeds N] [--first S] [--seed S] [--only crew|fleet]`

use std::{process::ExitCode, time::Instant};

use harness_sim::{
    crew::CrewFlaw,
    fleet::FleetFlaw,
    seeds::{self, Failure, Lived},
    story::Tally,
};

const SEEDS: u64 = 1000;
const STORY_LINES: usize = 60;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match Asked::read(&arguments) {
        Ok(Asked { seed: Some(seed), worlds, .. }) => replay(seed, worlds),
        Ok(asked) => run(asked.first, asked.seeds, asked.worlds),
        Err(problem) => {
            let usage = "harness-sim [--seeds N] [--first S] [--seed S] [--only crew|fleet]";
            eprintln!("{problem}\nusage: {usage}");
            ExitCode::from(2)
        }
    }
}

struct Asked {
    seeds: u64,
    first: u64,
    seed: Option<u64>,
    worlds: Worlds,
}

/// The worlds in which a seed is run.
#[derive(Clone, Copy)]
enum Worlds {
    All,
    /// Several workers, the slowest of them.
    Crew,
    /// Several hosts over one database, the quickest.
    Fleet,
}

impl Worlds {
    fn run(self, seed: u64) -> Result<Tally, Box<Failure>> {
        match self {
            Self::All => seeds::run(seed),
            Self::Crew => seeds::run_crew(seed, CrewFlaw::None),
            Self::Fleet => seeds::run_fleet(seed, FleetFlaw::None),
        }
    }

    fn tell(self, seed: u64) -> Lived {
        match self {
            Self::All => seeds::tell(seed),
            Self::Crew => seeds::tell_crew(seed),
            Self::Fleet => seeds::tell_fleet(seed),
        }
    }

    const fn flag(self) -> &'static str {
        match self {
            Self::All => "",
            Self::Crew => " --only crew",
            Self::Fleet => " --only fleet",
        }
    }
}

impl Asked {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let mut asked = Self { seeds: SEEDS, first: 1, seed: None, worlds: Worlds::All };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            let value = rest.next();
            if name == "--only" {
                asked.worlds = match value.map(String::as_str) {
                    Some("crew") => Worlds::Crew,
                    Some("fleet") => Worlds::Fleet,
                    _ => return Err("--only wants crew or fleet".to_owned()),
                };
                continue;
            }
            let value = value.and_then(|v| v.parse().ok());
            let value = value.ok_or_else(|| format!("{name} wants a number"))?;
            match name.as_str() {
                "--seeds" => asked.seeds = value,
                "--first" => asked.first = value,
                "--seed" => asked.seed = Some(value),
                _ => return Err(format!("unknown option {name}")),
            }
        }
        Ok(asked)
    }
}

fn run(first: u64, count: u64, worlds: Worlds) -> ExitCode {
    let started = Instant::now();
    let mut total = Tally::default();
    for seed in first..first.saturating_add(count) {
        match worlds.run(seed) {
            Ok(tally) => total.add(&tally),
            Err(failure) => {
                for line in failure.story.end(STORY_LINES) {
                    println!("{line}");
                }
                println!("seed {seed}: {}: {}", failure.violation.checker, failure.violation.what);
                println!("replay: cargo xtask sim --seed {seed}{}", worlds.flag());
                return ExitCode::FAILURE;
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{count} seeds from {first}: {total}; {seconds:.1} s");
    ExitCode::SUCCESS
}

fn replay(seed: u64, worlds: Worlds) -> ExitCode {
    let (result, tally, story) = worlds.tell(seed);
    for line in story.lines() {
        println!("{line}");
    }
    println!("seed {seed}: {tally}");
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(violation) => {
            println!("seed {seed}: {}: {}", violation.checker, violation.what);
            ExitCode::FAILURE
        }
    }
}
