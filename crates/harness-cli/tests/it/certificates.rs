//! Notifications over TLS, to servers with good and bad certificates.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    sync::Arc,
    thread,
};

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, SanType,
    date_time_ymd,
};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};

use crate::{environment::TestEnvironment, receiver::Receiver, run::world};

/// An authority of one test.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Starts a server whose certificate this authority signed.
    fn server(&self, change: impl FnOnce(&mut CertificateParams)) -> Receiver {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.subject_alt_names = vec![SanType::IpAddress([127, 0, 0, 1].into())];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], key)
            .unwrap();
        Receiver::encrypted(200, Arc::new(config))
    }
}

/// A project with a webhook, on a machine that trusts `authority` and no other.
fn project(authority: &Authority, url: &str) -> TestEnvironment {
    let env = world();
    let roots = env.home().join("roots.pem");
    fs::write(&roots, authority.0.pem()).unwrap();
    env.write(
        env.home().join(".config/harness/config.toml"),
        format!("[[notify]]\nkind = 'webhook'\nurl = '{url}'\n"),
    );
    env.variable("SSL_CERT_FILE", roots)
}

#[test]
fn a_webhook_reaches_a_server_whose_certificate_is_trusted() {
    let authority = Authority::new("ours");
    let receiver = authority.server(|_| {});
    let env = project(&authority, &receiver.url("/hook"));
    env.run(["notify", "test"]).success().stdout_contains("webhook (webhook): sent");
    let requests = receiver.requests();
    assert_eq!(requests.len(), 1, "{requests:#?}");
    assert_eq!(requests[0].path, "/hook");
    assert_eq!(requests[0].json()["data"]["text"], "This channel works.");
}

/// Nothing of the message may reach a server that is not the one that was meant.
#[test]
fn a_server_with_a_wrong_certificate_is_refused_before_anything_is_sent() {
    let [trusted, impostor, stranger] = ["ours", "ours", "theirs"].map(Authority::new);
    let other_name = |params: &mut CertificateParams| {
        params.subject_alt_names = vec![SanType::DnsName("other.example".try_into().unwrap())];
    };
    let expired = |params: &mut CertificateParams| {
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
    };
    for (receiver, why) in [
        (stranger.server(|_| {}), "UnknownIssuer"),
        (impostor.server(|_| {}), "BadSignature"),
        (trusted.server(other_name), "certificate not valid for name \"127.0.0.1\""),
        (trusted.server(expired), "certificate expired"),
    ] {
        let env = project(&trusted, &receiver.url("/very-secret"));
        let failed = env.run(["notify", "test"]).code(1);
        let said = failed.output();
        assert!(said.contains("failed: TLS failed: invalid peer certificate: "), "{said}");
        assert!(said.contains(why), "{why}: {said}");
        assert!(!said.contains("very-secret"), "{said}");
        assert!(receiver.requests().is_empty(), "{:#?}", receiver.requests());
    }
}

#[test]
fn a_server_without_tls_is_refused_before_anything_is_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/very-secret", listener.local_addr().unwrap());
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").unwrap();
        let mut seen = Vec::new();
        // The client may close the connection before everything was read.
        _ = stream.read_to_end(&mut seen);
        seen
    });
    let env = project(&Authority::new("ours"), &url);
    let failed = env.run(["notify", "test"]).code(1);
    assert!(failed.output().contains("failed: TLS failed: "), "{}", failed.output());
    let seen = String::from_utf8_lossy(&server.join().unwrap()).into_owned();
    assert!(!seen.is_empty() && !seen.contains("very-secret"), "{seen}");
}
