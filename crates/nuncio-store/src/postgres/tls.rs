//! TLS for connections to the server.

use std::sync::Arc;

use nuncio_engine::ports::store::StoreError;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::address::{PostgresAddress, TlsMode};

/// TLS settings of an address; `None` if its connections are not encrypted.
pub(super) fn settings(address: &PostgresAddress) -> Result<Option<MakeRustlsConnect>, StoreError> {
    if address.tls == TlsMode::Off {
        return Ok(None);
    }
    let failed =
        |why: String| StoreError::Unavailable(format!("a TLS connection to PostgreSQL is not possible: {why}"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let roots = Arc::new(authorities(address).map_err(failed)?);
    let verifier = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(|error| failed(error.to_string()))?;
    let verifier: Arc<dyn ServerCertVerifier> = match address.tls {
        TlsMode::VerifyCa => Arc::new(AnyHostName(verifier)),
        TlsMode::VerifyFull | TlsMode::Off => verifier,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(Some(MakeRustlsConnect::new(config)))
}

fn authorities(address: &PostgresAddress) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let Some(file) = &address.authorities else {
        let found = rustls_native_certs::load_native_certs();
        roots.add_parsable_certificates(found.certs);
        return match roots.is_empty() {
            true => Err("this system has no certificates of authorities; name a file with sslrootcert".to_owned()),
            false => Ok(roots),
        };
    };
    let unreadable = |error: rustls::pki_types::pem::Error| format!("sslrootcert {}: {error}", file.display());
    for certificate in CertificateDer::pem_file_iter(file).map_err(unreadable)? {
        let certificate = certificate.map_err(unreadable)?;
        roots.add(certificate).map_err(|error| format!("sslrootcert {}: {error}", file.display()))?;
    }
    if roots.is_empty() { Err(format!("sslrootcert {} contains no certificate", file.display())) } else { Ok(roots) }
}

/// Accepts a certificate of a known authority for any host name (`verify-ca`).
#[derive(Debug)]
struct AnyHostName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyHostName {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.0.verify_server_cert(certificate, intermediates, name, ocsp_response, now) {
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
