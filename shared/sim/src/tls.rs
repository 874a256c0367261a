//! A certificate authority that lives as long as the servers, and their
//! certificate.

use std::net::IpAddr;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SanType,
};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::serve::ServeError;

/// The protocol that a client must name to negotiate TLS directly
/// (PostgreSQL 17's `sslnegotiation=direct`).
pub(crate) const ALPN: &[u8] = b"postgresql";

/// What clients must trust. Its key is forgotten when the servers have their
/// certificate.
#[derive(Clone, Debug)]
pub(crate) struct Authority {
    pem: String,
}

impl Authority {
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }
}

/// An authority, and a server's side of TLS for these hosts and this machine.
pub(crate) fn server(
    mut hosts: Vec<String>,
    address: IpAddr,
) -> Result<(Authority, ServerConfig), ServeError> {
    let mut params = CertificateParams::new(Vec::new())?;
    params
        .distinguished_name
        .push(DnType::CommonName, "DSQL simulator test authority");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let issuer_key = KeyPair::generate()?;
    let authority = params.self_signed(&issuer_key)?;
    let issuer = Issuer::new(params, issuer_key);

    let common_name = hosts.first().cloned().unwrap_or_default();
    hosts.extend([
        "localhost".to_owned(),
        "127.0.0.1".to_owned(),
        "::1".to_owned(),
    ]);
    let mut params = CertificateParams::new(hosts)?;
    if !address.is_unspecified() && !address.is_loopback() {
        params.subject_alt_names.push(SanType::IpAddress(address));
    }
    params
        .distinguished_name
        .push(DnType::CommonName, common_name);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &issuer)?;

    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![ALPN.to_vec()];
    let authority = Authority {
        pem: authority.pem(),
    };
    Ok((authority, config))
}
