//! The collector of traces, from the variables of OpenTelemetry or from the configuration.

use crate::{
    config::Config,
    environment::Environment,
    failure::{Failure, Result},
};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Usually a secret.
pub(crate) const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const DISABLED: &str = "OTEL_SDK_DISABLED";

/// An address that takes OTLP over HTTP, with the headers of each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Collector {
    pub(crate) endpoint: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// Returns the collector; `None` if none is configured.
pub(crate) fn collector(config: &Config, env: &Environment) -> Result<Option<Collector>> {
    if env.get(DISABLED).is_some_and(|value| value.eq_ignore_ascii_case("true")) {
        return Ok(None);
    }
    let (source, endpoint) = match (env.text(ENDPOINT)?, &config.otel.endpoint) {
        (Some(endpoint), _) => (ENDPOINT, endpoint.trim()),
        (None, Some(endpoint)) => ("otel.endpoint", endpoint.trim()),
        (None, None) => return Ok(None),
    };
    if !endpoint.starts_with("http://") && !endpoint.starts_with("https://") {
        return Err(Failure::config(format!("{source} must begin with http:// or https://"))
            .hint("a collector listens for OTLP over HTTP on port 4318"));
    }
    let headers = env.text(HEADERS)?.map(headers).unwrap_or_default();
    Ok(Some(Collector { endpoint: endpoint.to_owned(), headers }))
}

/// Returns the pairs of a text such as `name=value,other=value`, whose values are percent-encoded.
fn headers(text: &str) -> Vec<(String, String)> {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    let pairs =
        pairs.map(|(name, value)| (name.trim().to_ascii_lowercase(), decoded(value.trim())));
    pairs.filter(|(name, _)| !name.is_empty()).collect()
}

fn decoded(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut found = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digits = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                found.push(byte);
                at += 3;
            }
            None => {
                found.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8_lossy(&found).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn the_variables_of_opentelemetry_come_first() {
        let mut config = Config::default();
        let of = |config: &Config, pairs: &[(&str, &str)]| {
            collector(config, &Environment::of(pairs)).unwrap()
        };
        assert_eq!(of(&config, &[]), None);
        config.otel.endpoint = Some("http://here:4318".to_owned());
        assert_eq!(of(&config, &[]).unwrap().endpoint, "http://here:4318");
        let found = of(&config, &[(ENDPOINT, "https://there"), (HEADERS, "A=b%20c, x-k=1=2,,bad")]);
        let found = found.unwrap();
        assert_eq!(found.endpoint, "https://there");
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(found.headers, [pair("a", "b c"), pair("x-k", "1=2")]);
        assert_eq!(of(&config, &[(DISABLED, "true")]), None);
        let wrong = Environment::of(&[(ENDPOINT, "localhost:4317")]);
        let failure = collector(&config, &wrong).unwrap_err();
        assert!(failure.error.contains(ENDPOINT), "{failure}");
    }
}
