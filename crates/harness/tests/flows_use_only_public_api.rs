//! Compiles the built-in flows as an outsider would: a private use does not compile.

#[allow(dead_code, unreachable_pub, reason = "compiled, not run")]
#[path = "../src/flows/mod.rs"]
mod flows;

#[test]
fn the_flows_compile_from_outside() {}
