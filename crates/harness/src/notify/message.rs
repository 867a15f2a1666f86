//! The request of each kind of channel.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use harness_core::{Timestamp, notify::Notice};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::{Means, Secret};
use crate::http::HttpRequest;

/// The limit of a message of Discord, in characters.
const DISCORD_CHARACTERS: usize = 2000;

/// Returns the request for a message; `None` if the channel uses no HTTP.
pub(super) fn request(means: &Means, notice: &Notice, now: Timestamp) -> Option<HttpRequest> {
    Some(match means {
        Means::Command { .. } | Means::Desktop => return None,
        Means::Webhook { url, key } => webhook(url, key.as_ref(), notice, now),
        Means::Ntfy { url, topic, token } => {
            let document = json!({
                "topic": topic.reveal(), "title": notice.title, "message": lines(notice),
                "tags": [notice.event.name()],
            });
            let mut request = post(url.reveal().to_owned(), &document);
            let bearer = token.as_ref().map(|token| format!("Bearer {}", token.reveal()));
            request.headers.extend(bearer.map(|value| ("authorization".to_owned(), value)));
            request
        }
        Means::Slack { url } => {
            let escape =
                |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            let (title, text) = (escape(&notice.title), escape(&notice.text));
            let text = format!("*{title}*\n{text}\n`{}`", escape(&notice.command));
            post(url.reveal().to_owned(), &json!({ "text": text }))
        }
        Means::Discord { url } => {
            let content = format!("**{}**\n{}\n`{}`", notice.title, notice.text, notice.command);
            let content: String = content.chars().take(DISCORD_CHARACTERS).collect();
            // The text of an agent must not call people.
            let document = json!({ "content": content, "allowed_mentions": { "parse": [] } });
            post(url.reveal().to_owned(), &document)
        }
        Means::Telegram { url, token, chat } => {
            let base = url.reveal().trim_end_matches('/');
            let text = format!("{}\n{}", notice.title, lines(notice));
            let preview = json!({ "is_disabled": true });
            let document =
                json!({ "chat_id": chat, "text": text, "link_preview_options": preview });
            post(format!("{base}/bot{}/sendMessage", token.reveal()), &document)
        }
    })
}

/// Returns the text with the command below it.
fn lines(notice: &Notice) -> String {
    format!("{}\n{}", notice.text, notice.command)
}

fn post(url: String, document: &Value) -> HttpRequest {
    let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
    HttpRequest { url, headers, body: document.to_string().into_bytes() }
}

fn webhook(url: &Secret, key: Option<&Secret>, notice: &Notice, now: Timestamp) -> HttpRequest {
    let kind = format!("harness.{}", notice.event);
    let document = json!({ "type": kind, "timestamp": notice.at, "data": notice });
    let mut request = post(url.reveal().to_owned(), &document);
    let time = now.seconds().to_string();
    let signature = key.map(|key| signature(key, &notice.id, &time, &request.body));
    let headers = [
        ("webhook-id", Some(notice.id.clone())),
        ("webhook-timestamp", Some(time)),
        ("webhook-signature", signature),
    ];
    let headers = headers.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    request.headers.extend(headers);
    request
}

/// Returns the signature as Standard Webhooks define it: the HMAC of the id, the time and the body.
fn signature(key: &Secret, id: &str, time: &str, body: &[u8]) -> String {
    let text = key.reveal();
    let decoded = text.strip_prefix("whsec_").and_then(|rest| STANDARD.decode(rest.trim()).ok());
    let bytes = decoded.unwrap_or_else(|| text.as_bytes().to_vec());
    // A key of any length is accepted.
    let Ok(mac) = Hmac::<Sha256>::new_from_slice(&bytes) else { return String::new() };
    let mac = mac.chain_update(id).chain_update(".").chain_update(time).chain_update(".");
    format!("v1,{}", STANDARD.encode(mac.chain_update(body).finalize().into_bytes()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use harness_core::notify::Happening;

    use super::*;

    fn notice() -> Notice {
        let question = "Is a < b & \"c\"?";
        let asked = Happening::Asked { prompt: "prompt-0-ab", question, phase: None };
        Notice::of(asked, "shop", Timestamp::from_seconds(1_751_364_000)).unwrap()
    }

    fn sent(means: &Means) -> (HttpRequest, Value) {
        let request = request(means, &notice(), Timestamp::from_seconds(1_751_364_005)).unwrap();
        let body = serde_json::from_slice(&request.body).unwrap();
        (request, body)
    }

    fn secret(text: &str) -> Secret {
        Secret::new(text)
    }

    #[test]
    fn the_signature_is_that_of_the_specification() {
        // The example of the reference implementation of Standard Webhooks.
        let key = secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        let body = br#"{"test": 2432232314}"#;
        let signed = signature(&key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", body);
        assert_eq!(signed, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }

    #[test]
    fn a_webhook_has_an_id_a_time_and_a_signature() {
        let url = secret("http://127.0.0.1/x");
        let (request, body) =
            sent(&Means::Webhook { url: url.clone(), key: Some(secret("plain")) });
        let header = |name: &str| {
            let found = request.headers.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value.clone()).unwrap_or_default()
        };
        assert_eq!(header("webhook-id"), notice().id);
        assert_eq!(header("webhook-timestamp"), "1751364005");
        assert!(header("webhook-signature").starts_with("v1,"));
        assert_eq!(body["type"], "harness.question");
        assert_eq!(body["data"]["command"], "harness reply prompt-0-ab ANSWER");
        let (unsigned, _) = sent(&Means::Webhook { url, key: None });
        assert!(unsigned.headers.iter().all(|(name, _)| name != "webhook-signature"));
    }

    #[test]
    fn each_service_gets_its_own_form() {
        let url = || secret("https://example.com/hook/");
        let (request, body) =
            sent(&Means::Ntfy { url: url(), topic: secret("t"), token: Some(secret("k")) });
        assert!(request.headers.contains(&("authorization".to_owned(), "Bearer k".to_owned())));
        assert_eq!((&body["topic"], &body["title"]), (&"t".into(), &"shop: an agent asks".into()));
        let (_, body) = sent(&Means::Slack { url: url() });
        assert_eq!(
            body["text"],
            "*shop: an agent asks*\nIs a &lt; b &amp; \"c\"?\n`harness reply prompt-0-ab ANSWER`"
        );
        let (_, body) = sent(&Means::Discord { url: url() });
        assert_eq!(body["allowed_mentions"]["parse"], json!([]));
        let chat = "7".to_owned();
        let (request, body) = sent(&Means::Telegram { url: url(), token: secret("1:a"), chat });
        assert_eq!(request.url, "https://example.com/hook/bot1:a/sendMessage");
        assert_eq!(body["chat_id"], "7");
        assert_eq!(
            body["text"],
            "shop: an agent asks\nIs a < b & \"c\"?\nharness reply prompt-0-ab ANSWER"
        );
    }
}
