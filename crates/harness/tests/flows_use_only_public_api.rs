//! Compiles the built-in flows as another crate would, so that the use of a private item does not
//! compile.

#[allow(dead_code, unreachable_pub, unused_imports, reason = "compiled, not run")]
#[path = "../src/flows/mod.rs"]
mod flows;

#[test]
fn the_flows_compile_from_outside() {}
