//! OTLP in JSON: the bodies of `/v1/traces` and `/v1/metrics`.

use serde_json::{Value, json};

use super::{Attribute, Meter, Span, SpanKind, semconv};

/// The value of `aggregationTemporality` for sums since the beginning.
const CUMULATIVE: u8 = 2;

/// Returns the request with these spans.
pub fn traces(spans: &[Span]) -> Value {
    let spans: Vec<Value> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": resource(),
        "scopeSpans": [{ "scope": scope(), "spans": spans, "schemaUrl": semconv::SCHEMA_URL }],
        "schemaUrl": semconv::SCHEMA_URL,
    }] })
}

/// Returns the request with the metrics of a run that began at `start_ms`.
pub fn metrics(meter: &Meter, start_ms: i64, now_ms: i64) -> Value {
    let times = |mut point: Value| {
        point["startTimeUnixNano"] = nanos(start_ms).into();
        point["timeUnixNano"] = nanos(now_ms).into();
        point
    };
    let int = |value: u64, attributes: &[(&str, Attribute)]| {
        times(json!({ "asInt": value.to_string(), "attributes": all(attributes) }))
    };
    let sum = |name: &str, unit: &str, points: Vec<Value>| {
        json!({ "name": name, "unit": unit, "sum": { "dataPoints": points,
            "aggregationTemporality": CUMULATIVE, "isMonotonic": true } })
    };
    let tokens = meter.tokens.iter().map(|((provider, kind), series)| {
        let buckets: Vec<String> = series.buckets.iter().map(ToString::to_string).collect();
        let mut attributes: Vec<(&str, Attribute)> = vec![
            (semconv::OPERATION, semconv::INVOKE_AGENT.into()),
            (semconv::TOKEN_TYPE, (*kind).into()),
        ];
        if !provider.is_empty() {
            attributes.push((semconv::PROVIDER, provider.as_str().into()));
        }
        times(json!({ "count": series.count.to_string(), "sum": series.sum,
            "bucketCounts": buckets, "explicitBounds": semconv::TOKEN_BOUNDS,
            "attributes": all(&attributes) }))
    });
    let histogram = json!({ "name": semconv::TOKEN_USAGE, "unit": "{token}", "histogram": {
        "dataPoints": tokens.collect::<Vec<_>>(), "aggregationTemporality": CUMULATIVE } });
    let attempts = meter.attempts.iter();
    let attempts = attempts
        .map(|(outcome, count)| int(*count, &[("harness.outcome", outcome.as_str().into())]));
    let cost = times(json!({ "asDouble": meter.cost_usd, "attributes": [] }));
    let waited = times(json!({ "asDouble": meter.wait_ms as f64 / 1000.0, "attributes": [] }));
    let depths = meter.depths.iter();
    let depths = depths.map(|(state, count)| int(*count, &[("harness.state", (*state).into())]));
    let gauge = json!({ "name": "harness.queue.depth", "unit": "{task}",
        "gauge": { "dataPoints": depths.collect::<Vec<_>>() } });
    let list = [
        histogram,
        sum("harness.cost", "USD", vec![cost]),
        sum("harness.attempts", "{attempt}", attempts.collect()),
        sum("harness.waits", "{wait}", vec![int(meter.waits, &[])]),
        sum("harness.wait.duration", "s", vec![waited]),
        gauge,
    ];
    json!({ "resourceMetrics": [{
        "resource": resource(),
        "scopeMetrics": [{ "scope": scope(), "metrics": list, "schemaUrl": semconv::SCHEMA_URL }],
        "schemaUrl": semconv::SCHEMA_URL,
    }] })
}

fn resource() -> Value {
    let attributes: [(&str, Attribute); 2] =
        [("service.name", "harness".into()), ("service.version", env!("CARGO_PKG_VERSION").into())];
    json!({ "attributes": all(&attributes) })
}

fn scope() -> Value {
    json!({ "name": "harness", "version": env!("CARGO_PKG_VERSION") })
}

fn span(span: &Span) -> Value {
    let kind = match span.kind {
        SpanKind::Internal => 1,
        SpanKind::Client => 3,
    };
    let mut document = json!({
        "traceId": span.trace.to_string(),
        "spanId": span.id.to_string(),
        "parentSpanId": span.parent.map(|parent| parent.to_string()).unwrap_or_default(),
        "name": span.name,
        "kind": kind,
        "startTimeUnixNano": nanos(span.start_ms),
        "endTimeUnixNano": nanos(span.end_ms),
        "attributes": all(&span.attributes),
        "flags": 1,
    });
    // 0 is unset, and 2 is an error.
    document["status"] = match &span.error {
        Some(kind) => json!({ "code": 2, "message": kind }),
        None => json!({}),
    };
    document
}

fn all(attributes: &[(&str, Attribute)]) -> Vec<Value> {
    let value = |attribute: &Attribute| match attribute {
        Attribute::Text(text) => json!({ "stringValue": text }),
        // JSON of protocol buffers writes numbers of 64 bits as text.
        Attribute::Int(number) => json!({ "intValue": number.to_string() }),
        Attribute::Float(number) => json!({ "doubleValue": number }),
        Attribute::Bool(yes) => json!({ "boolValue": yes }),
    };
    let pair =
        |(name, attribute): &(&str, Attribute)| json!({ "key": name, "value": value(attribute) });
    attributes.iter().map(pair).collect()
}

fn nanos(milliseconds: i64) -> String {
    format!("{}", i128::from(milliseconds.max(0)) * 1_000_000)
}
