//! `harness web`: the server, the pages, and who may see them.

mod api;
mod beside;
mod browser;
mod chromium;
mod client;
mod limits;
mod night;
mod security;
mod server;
