//! The names of the OpenTelemetry conventions for generative AI. They are not stable yet, so the
//! version is fixed here, and nothing else spells one of them.

/// The version of the semantic conventions that the names are from.
pub const CONVENTIONS: &str = "1.41.0";
pub(super) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";

pub(super) const OPERATION: &str = "gen_ai.operation.name";
pub(super) const INVOKE_AGENT: &str = "invoke_agent";
pub(super) const PROVIDER: &str = "gen_ai.provider.name";
pub(super) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(super) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(super) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(super) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(super) const TOKEN_USAGE: &str = "gen_ai.client.token.usage";
pub(super) const ERROR_TYPE: &str = "error.type";

/// The bounds that the conventions advise for [`TOKEN_USAGE`].
pub(super) const TOKEN_BOUNDS: [f64; 14] = [
    1.0, 4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0,
    16777216.0, 67108864.0,
];

/// Returns the provider of an agent's models, by the kind of the agent.
pub(super) fn provider(kind: &str) -> &str {
    match kind {
        "claude" | "claude-code" => "anthropic",
        "codex" => "openai",
        "gemini" => "gcp.gemini",
        other => other,
    }
}
