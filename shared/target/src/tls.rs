//! TLS by rustls, with the aws-lc-rs provider that the AWS SDK brings along.
//!
//! For DSQL the certificate's chain and name are always verified, and there is
//! no switch to turn that off. For PostgreSQL the modes mean what they mean to
//! libpq: `prefer` and `require` encrypt and verify nothing, `verify-full`
//! verifies all.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::TargetError;

/// The name that direct negotiation needs in ALPN; libpq sends it always.
const ALPN: &[u8] = b"postgresql";

/// A connector that verifies chain and name against the machine's roots and
/// the certificates of a PEM file.
pub(crate) fn verified(extra: Option<&Path>) -> Result<MakeRustlsConnect, TargetError> {
    let mut roots = RootCertStore::empty();
    let native = rustls_native_certs::load_native_certs();
    for error in &native.errors {
        tracing::debug!(%error, "root certificate skipped");
    }
    roots.add_parsable_certificates(native.certs);
    if let Some(path) = extra {
        let refused = |reason: String| TargetError::CaFile {
            path: path.display().to_string(),
            reason,
        };
        let mut found = false;
        for certificate in
            CertificateDer::pem_file_iter(path).map_err(|e| refused(e.to_string()))?
        {
            let certificate = certificate.map_err(|e| refused(e.to_string()))?;
            roots.add(certificate).map_err(|e| refused(e.to_string()))?;
            found = true;
        }
        if !found {
            return Err(refused("it holds no certificate".to_owned()));
        }
    }
    if roots.is_empty() {
        return Err(TargetError::NoRoots);
    }
    build(|builder| builder.with_root_certificates(roots).with_no_client_auth())
}

/// A connector that encrypts and verifies nothing.
pub(crate) fn unverified() -> Result<MakeRustlsConnect, TargetError> {
    build(|builder| {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider())))
            .with_no_client_auth()
    })
}

type Builder = rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>;

fn build(finish: impl FnOnce(Builder) -> ClientConfig) -> Result<MakeRustlsConnect, TargetError> {
    // The provider is named, never the process's default: a second one in the
    // process would otherwise make rustls panic.
    let builder = ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(|error| TargetError::Tls(error.to_string()))?;
    let mut config = finish(builder);
    config.alpn_protocols = vec![ALPN.to_vec()];
    Ok(MakeRustlsConnect::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref::<rustls::Error>()
}

/// Whether the server's certificate is what was not accepted.
pub(crate) fn is_about_certificate(error: &io::Error) -> bool {
    matches!(cause(error), Some(rustls::Error::InvalidCertificate(_)))
}

/// The error in words, with the remedy where there is one.
pub(crate) fn explain(error: &io::Error) -> String {
    match cause(error) {
        // A bad signature is what an issuer of the same name but another key
        // looks like: a test CA that was made anew.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => "TLS: the certificate's issuer is not trusted; name a PEM file with the right CA \
             (ca= for dsql://, sslrootcert= for postgres://, or FABRIC_CA_FILE)"
            .to_owned(),
        // What `openssl req -x509` makes for a server by itself; the verifier
        // names it in its own type alone.
        Some(inner) if inner.to_string().contains("CaUsedAsEndEntity") => {
            "TLS: the server shows a CA's certificate as its own; give it one that a CA has \
             signed, or make it with basicConstraints=CA:FALSE"
                .to_owned()
        }
        Some(inner) => format!("TLS: {inner}"),
        None => error.to_string(),
    }
}

/// Accepts whatever certificate it is shown, as libpq does below `verify-ca`.
/// Checking the handshake's signature with a key that anybody may have made
/// would prove nothing, and refuse old certificates that libpq takes.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
