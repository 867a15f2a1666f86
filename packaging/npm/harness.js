#!/usr/bin/env node
// Starts the program of the package for this platform. npm has chosen that package; nothing is downloaded here.
"use strict";

const { spawnSync } = require("node:child_process");
const os = require("node:os");

const platform = `${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`harness-supervisor-${platform}/bin/harness`);
} catch {
  console.error(`Error: there is no harness for ${platform}, or npm left out optional dependencies`);
  console.error("Hint: install without --omit=optional, or build it: cargo install harness-supervisor-cli");
  process.exit(1);
}

const args = process.argv.slice(2);
if (typeof process.execve === "function") {
  // Newer versions of Node replace this process, so that signals and the terminal need no help.
  process.execve(program, ["harness", ...args], process.env);
}
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => {}); // The program gets the signal of the terminal itself, and decides.
}
const ended = spawnSync(program, args, { stdio: "inherit" });
if (ended.error) {
  console.error(`Error: cannot run ${program}: ${ended.error.message}`);
  process.exit(1);
}
process.exit(ended.status ?? 128 + (os.constants.signals[ended.signal] ?? 0));
