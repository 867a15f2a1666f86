//! TLS for connections: rustls with ring, as for HTTP.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use harness_core::database::{DatabaseUrl, SslMode};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::CryptoProvider,
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject as _},
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

/// Makes the TLS side of a connection, with the checks that the address asks for.
#[derive(Clone)]
pub(super) struct Tls(Arc<ClientConfig>);

impl Tls {
    pub(super) fn of(url: &DatabaseUrl) -> Result<Self, String> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().map_err(|e| e.to_string())?;
        let checks = match url.sslmode() {
            SslMode::VerifyFull => Checks::Host,
            SslMode::VerifyCa => Checks::Authority,
            // As with libpq: who names the authorities wants them checked.
            SslMode::Require if url.sslrootcert().is_some() => Checks::Authority,
            SslMode::Require | SslMode::Prefer | SslMode::Disable => Checks::Nothing,
        };
        let authorities = match checks {
            Checks::Nothing => None,
            Checks::Authority | Checks::Host => {
                let roots = Arc::new(roots(url)?);
                let made =
                    WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
                Some(made.build().map_err(|e| e.to_string())?)
            }
        };
        let verifier = Arc::new(Verifier { checks, authorities, provider });
        let config =
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }
}

fn roots(url: &DatabaseUrl) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    match url.sslrootcert().filter(|file| *file != "system") {
        Some(file) => {
            let failed = |why: String| format!("sslrootcert {file} cannot be used: {why}");
            let all = CertificateDer::pem_file_iter(file).map_err(|e| failed(e.to_string()))?;
            for certificate in all {
                let certificate = certificate.map_err(|e| failed(e.to_string()))?;
                roots.add(certificate).map_err(|e| failed(e.to_string()))?;
            }
        }
        None => {
            // What cannot be read is left out. Without any root, every server is refused.
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        }
    }
    Ok(roots)
}

/// What is checked of the certificate of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Checks {
    Nothing,
    Authority,
    Host,
}

#[derive(Debug)]
struct Verifier {
    checks: Checks,
    authorities: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let Some(authorities) = &self.authorities else {
            return Ok(ServerCertVerified::assertion());
        };
        match authorities.verify_server_cert(certificate, others, name, ocsp, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.checks == Checks::Authority => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// One handshake.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// A protected stream.
pub(super) struct Protected<S>(tokio_rustls::client::TlsStream<S>);

type Shaking<S> = Pin<Box<dyn Future<Output = io::Result<Protected<S>>> + Send>>;

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Protected<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Handshake> {
        // A Unix socket has no name. TLS is not used there.
        let name = if domain.is_empty() { "localhost" } else { domain };
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        Ok(Handshake { config: Arc::clone(&self.0), name })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Protected<S>;
    type Error = io::Error;
    type Future = Shaking<S>;

    fn connect(self, stream: S) -> Self::Future {
        let connector = tokio_rustls::TlsConnector::from(self.config);
        Box::pin(async move { connector.connect(self.name, stream).await.map(Protected) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Protected<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Protected<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Protected<S> {
    /// The certificate is checked by TLS itself.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}
