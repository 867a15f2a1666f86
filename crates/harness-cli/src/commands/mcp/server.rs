//! Answers requests: the list of tools, and the results of calls. Besides [`wire`](super::wire),
//! this is the only place that knows `rmcp`.

use std::{sync::Arc, time::Duration};

use harness::shell::Cancel;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, CustomRequest,
        CustomResult, ErrorCode, Implementation, InitializeRequestParams, InitializeResult,
        ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ServerCapabilities,
        ServerConfig, ToolAnnotations,
    },
    service::{RequestContext, serve_directly_with_ct},
};
use tokio::{
    signal::unix::{SignalKind, signal},
    task::spawn_blocking,
    time::{Instant, interval_at},
};
use tokio_util::sync::CancellationToken;

use super::{
    tool::{Answer, Effect, Tool},
    tools,
    wire::Wire,
};
use crate::{
    environment::Environment,
    failure::{Failure, Result},
    worker,
};

/// The time after which a client that asked for progress is first informed that a tool waits, and
/// the interval afterwards.
const FIRST_WORD: Duration = Duration::from_secs(1);
const PROGRESS: Duration = Duration::from_secs(5);
/// The time that a tool may take to stop. A check is killed after five seconds.
const FAREWELL: Duration = Duration::from_secs(7);
/// Known methods. If a request with one of them is invalid, its parameters are wrong.
const METHODS: [&str; 3] = ["initialize", "tools/call", "tools/list"];

const INSTRUCTIONS: &str = "harness keeps a ledger of tasks and checks them before they count as \
    done. Worker and task come from your environment. While you work on a task, call \
    task_checkpoint after each step, use handoff_write to inform your next context, and call \
    task_complete when the task is done; harness_status shows the progress of the work.";

/// Serves until standard input ends or an end is requested. Both are regular ends.
pub(super) fn serve(env: &Environment) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let written = runtime.block_on(async {
        let ending = CancellationToken::new();
        let (wire, written) = Wire::open(&ending);
        let server = Server { tools: Arc::new(tools::all()), env: env.clone() };
        // The handshake of the crate would end the server at the first message that is out of
        // order.
        let serving = serve_directly_with_ct(server, wire, None, ending.clone());
        let _signals = end_by_signal(ending)?;
        serving.waiting().await.map_err(|why| Failure::error(why.to_string()))?;
        Ok::<_, Failure>(written)
    })?;
    // These were asked to stop. The processes that they started must end before we do.
    runtime.shutdown_timeout(FAREWELL);
    written.wait();
    Ok(())
}

fn end_by_signal(ending: CancellationToken) -> Result<tokio::task::JoinHandle<()>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut terminate = signal(SignalKind::terminate())?;
    Ok(tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = hang_up.recv() => {}
            _ = terminate.recv() => {}
        }
        ending.cancel();
    }))
}

struct Server {
    tools: Arc<Vec<Tool>>,
    env: Environment,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools().build();
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("harness", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let agreed = self.negotiate_initialize(&request)?;
        // Later answers use the agreed version.
        let mut peer = request;
        peer.protocol_version = agreed.protocol_version.clone();
        context.peer.set_peer_info(peer);
        Ok(agreed)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(self.tools.iter().map(described).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(at) = self.tools.iter().position(|tool| tool.name == request.name) else {
            let message = format!("Unknown tool: {}", request.name);
            return Err(ErrorData::invalid_params(message, None));
        };
        let stop = Cancel::new().map_err(|why| ErrorData::internal_error(why.to_string(), None))?;
        let mut working = {
            let (tools, stop) = (Arc::clone(&self.tools), stop.clone());
            let env = match codex_thread(&context) {
                Some(thread) => worker::in_codex_thread(&self.env, thread),
                None => self.env.clone(),
            };
            let arguments = request.arguments.unwrap_or_default();
            spawn_blocking(move || tools[at].call(&env, stop, arguments))
        };
        let progress = Progress::of(&context, self.tools[at].waits_for);
        let mut tick = interval_at(progress.since + FIRST_WORD, PROGRESS);
        loop {
            tokio::select! {
                done = &mut working => {
                    let done = done.unwrap_or_else(|why| Err(Failure::error(why.to_string())));
                    return Ok(call_result(done).into());
                }
                () = context.ct.cancelled(), if !stop.is_cancelled() => stop.cancel(),
                _ = tick.tick() => progress.tell(&context).await,
            }
        }
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method = request.method;
        if METHODS.contains(&method.as_str()) {
            let message = format!("{method}: invalid parameters");
            return Err(ErrorData::invalid_params(message, None));
        }
        let message = format!("Method not found: {method}");
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, message, None))
    }
}

/// Returns the calling thread, which Codex names with each call.
fn codex_thread(context: &RequestContext<RoleServer>) -> Option<&str> {
    let turn = context.meta.get("x-codex-turn-metadata");
    let thread = turn.and_then(|turn| turn.get("thread_id")).or(context.meta.get("threadId"))?;
    thread.as_str().filter(|thread| !thread.is_empty())
}

/// Reports about a call that takes long, if the client asked for them.
struct Progress {
    token: Option<rmcp::model::ProgressToken>,
    waits_for: Option<&'static str>,
    since: Instant,
}

impl Progress {
    fn of(context: &RequestContext<RoleServer>, waits_for: Option<&'static str>) -> Self {
        Self { token: context.meta.get_progress_token(), waits_for, since: Instant::now() }
    }

    async fn tell(&self, context: &RequestContext<RoleServer>) {
        let (Some(token), Some(waits_for)) = (&self.token, self.waits_for) else { return };
        let seconds = self.since.elapsed().as_secs_f64().round();
        let progress =
            ProgressNotificationParam::new(token.clone(), seconds).with_message(waits_for);
        // A lost report does no harm.
        _ = context.peer.notify_progress(progress).await;
    }
}

fn described(tool: &Tool) -> rmcp::model::Tool {
    let annotations = ToolAnnotations::new()
        .read_only(tool.effect == Effect::Reads)
        .destructive(tool.effect == Effect::Replaces)
        .idempotent(matches!(tool.effect, Effect::Reads | Effect::Settles))
        .open_world(false);
    rmcp::model::Tool::new(tool.name, tool.description.clone(), Arc::new(tool.schema.clone()))
        .with_annotations(annotations)
}

/// Returns the result of a call. A refusal is a result too, so that the agent can read the hints.
fn call_result(done: Result<Answer>) -> CallToolResult {
    match done {
        Ok(Answer::Text(text)) => CallToolResult::success(vec![ContentBlock::text(text)]),
        Ok(Answer::Data(data)) => CallToolResult::structured(data),
        Err(failure) => {
            let hints = failure.hints.iter().map(|hint| format!("\nHint: {hint}"));
            let text = failure.error.clone() + &hints.collect::<String>();
            CallToolResult::error(vec![ContentBlock::text(text)])
        }
    }
}
