//! The binary: arguments → library calls → words. It decides nothing by itself.

mod client;
mod commands;
mod config;
mod database;
mod elsewhere;
mod environment;
mod exit;
mod failure;
mod fleet;
mod host;
mod interrupt;
mod invocation;
mod local_time;
mod log_file;
mod log_line;
mod memory;
mod notification;
mod otel;
mod paint;
mod prompt;
mod render;
mod repository;
mod role;
mod root;
mod secrets;
mod speech;
mod store;
mod task_line;
mod tool_line;
mod transcript_file;
mod transcript_text;
mod trust;
mod view_sources;
mod warnings;
mod watch;
mod web;
mod worker;
mod would_run;

fn main() -> std::process::ExitCode {
    memory::share_one_heap();
    commands::main().into()
}
