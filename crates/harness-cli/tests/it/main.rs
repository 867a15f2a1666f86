//! Tests of the binary for people and scripts. They are one test program with a module per subject,
//! because linking a test program takes most of the time of a small test.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "clippy only knows #[test] functions")]

mod agents;
mod asking;
mod binding;
mod boundary;
mod chosen;
mod commit_hooks;
mod config;
mod crowd;
mod daemon;
mod daemon_wire;
mod demo;
mod doctor;
mod documents;
mod environment;
mod evidence;
mod frame;
mod gates;
mod git_calls;
mod hook_rules;
mod hooks;
mod host;
mod init;
mod install;
mod killed;
mod ledgers;
mod leftovers;
mod log;
mod mcp;
mod objective;
mod page;
mod plan;
mod project;
mod protocol;
mod report;
mod research;
mod run;
mod runs;
mod salvage;
mod sandbox;
mod seeds;
mod sessions;
mod speaks;
mod spelling;
mod status;
mod task_read;
mod tasks;
mod terminal;
mod together;
mod transcripts;
mod trust;
mod uncommitted;
mod verify;
mod worker;
