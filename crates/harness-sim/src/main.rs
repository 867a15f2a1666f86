//! `harness-sim [--seeds N] [--first S] [--seed S]`

use std::{process::ExitCode, time::Instant};

use harness_sim::{seeds, story::Tally};

const SEEDS: u64 = 1000;
const STORY_LINES: usize = 60;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match Asked::read(&arguments) {
        Ok(Asked { seed: Some(seed), .. }) => replay(seed),
        Ok(asked) => run(asked.first, asked.seeds),
        Err(problem) => {
            eprintln!("{problem}\nusage: harness-sim [--seeds N] [--first S] [--seed S]");
            ExitCode::from(2)
        }
    }
}

struct Asked {
    seeds: u64,
    first: u64,
    seed: Option<u64>,
}

impl Asked {
    fn read(arguments: &[String]) -> Result<Self, String> {
        let mut asked = Self { seeds: SEEDS, first: 1, seed: None };
        let mut rest = arguments.iter();
        while let Some(name) = rest.next() {
            let value = rest.next().and_then(|v| v.parse().ok());
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

fn run(first: u64, count: u64) -> ExitCode {
    let started = Instant::now();
    let mut total = Tally::default();
    for seed in first..first.saturating_add(count) {
        match seeds::run(seed) {
            Ok(tally) => total.add(&tally),
            Err(failure) => {
                for line in failure.story.end(STORY_LINES) {
                    println!("{line}");
                }
                println!("seed {seed}: {}: {}", failure.violation.checker, failure.violation.what);
                println!("replay: cargo xtask sim --seed {seed}");
                return ExitCode::FAILURE;
            }
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{count} seeds from {first}: {total}; {seconds:.1} s");
    ExitCode::SUCCESS
}

fn replay(seed: u64) -> ExitCode {
    let (result, tally, story) = seeds::tell(seed);
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
