// Drives `harness acp` with the official client of the Agent Client Protocol, and prints what it saw
// as one JSON document. Arguments: the module of the client, the program, the folder of the project,
// the words of the scenario, and the options of the run.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, program, cwd, scenario, ...options] = process.argv.slice(2);
const acp = await import(sdk);
const seen = { updates: [], asked: [], stops: [] };

async function connected(op) {
  const agent = spawn(program, ["acp", "--", ...options], { cwd, stdio: ["pipe", "pipe", "inherit"] });
  const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
  const app = acp.client({ name: "test" })
    .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
      seen.asked.push(params);
      const optionId = params.options[0].optionId;
      return { outcome: { outcome: "selected", optionId } };
    })
    .onNotification(acp.methods.client.session.update, ({ params }) => {
      seen.updates.push(params.update);
    });
  try {
    await app.connectWith(stream, async (context) => {
      const methods = acp.methods.agent;
      const initialized = await context.request(methods.initialize, {
        protocolVersion: acp.PROTOCOL_VERSION,
        clientCapabilities: { fs: { readTextFile: false, writeTextFile: false }, terminal: false },
      });
      seen.initialized = initialized;
      await op(context, methods);
    });
  } finally {
    agent.stdin.end();
    await new Promise((resolve) => (agent.exitCode === null ? agent.once("exit", resolve) : resolve()));
  }
}

const prompt = async (context, methods, sessionId, text) => {
  const answer = await context.request(methods.session.prompt, {
    sessionId,
    prompt: [{ type: "text", text }],
  });
  seen.stops.push(answer.stopReason);
};

let sessionId;
await connected(async (context, methods) => {
  ({ sessionId } = await context.request(methods.session.new, { cwd, mcpServers: [] }));
  if (scenario === "cancel") {
    const turn = prompt(context, methods, sessionId, "wait for ever");
    const until = Date.now() + 60000;
    const begun = () => seen.updates.some((update) => update.content?.text?.includes("at work"));
    while (!begun() && Date.now() < until) await new Promise((resolve) => setTimeout(resolve, 50));
    await context.notify(methods.session.cancel, { sessionId });
    await turn;
  } else {
    await prompt(context, methods, sessionId, scenario);
  }
});
seen.before = seen.updates.splice(0);
await connected(async (context, methods) => {
  await context.request(methods.session.load, { sessionId, cwd, mcpServers: [] });
});
console.log(JSON.stringify(seen));
