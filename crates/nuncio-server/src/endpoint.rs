//! Where the server listens: address, bound sockets and TLS certificate.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nuncio_core::ErrorCode;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::error::OperatorError;

/// Address to listen on; `localhost` means both loopback addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListenAddress {
    pub host: String,
    /// The port; zero chooses a free one.
    pub port: u16,
}

impl ListenAddress {
    /// Reads `HOST:PORT`.
    pub fn parse(text: &str) -> Result<Self, OperatorError> {
        let wrong = || {
            let message = format!("{text:?} is not HOST:PORT, such as localhost:7400 or 0.0.0.0:7400");
            OperatorError::new(ErrorCode::ListenFailed, message)
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port: port.parse().map_err(|_| wrong())? })
    }
}

/// Files for TLS, in PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate chain, the server's certificate first.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Binds the address; `localhost` gives a listener for each loopback address.
pub(crate) async fn bind(on: &ListenAddress) -> Result<Vec<TcpListener>, OperatorError> {
    let failed = |address: &str, error: &std::io::Error| {
        let message = format!("cannot listen on {address}: {error}; choose another address with --listen");
        OperatorError::new(ErrorCode::ListenFailed, message)
    };
    let is_localhost = on.host.eq_ignore_ascii_case("localhost");
    let host = if is_localhost { "127.0.0.1" } else { &on.host };
    let listener = TcpListener::bind((host, on.port)).await;
    let four = listener.map_err(|error| failed(&format!("{host}:{}", on.port), &error))?;
    if !is_localhost {
        return Ok(vec![four]);
    }
    let port = four.local_addr().map_err(|error| listen_failed(&error))?.port();
    match TcpListener::bind(("::1", port)).await {
        Ok(six) => Ok(vec![four, six]),
        // Another server on this port would also answer as `localhost`. A machine without IPv6 is no error.
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && on.port != 0 => {
            Err(failed(&format!("[::1]:{port}"), &error))
        }
        Err(_) => Ok(vec![four]),
    }
}

pub(crate) fn listen_failed(error: &std::io::Error) -> OperatorError {
    OperatorError::new(ErrorCode::ListenFailed, format!("cannot listen: {error}"))
}

/// Reads a certificate or key file.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, OperatorError> {
    std::fs::read(path).map_err(|error| {
        OperatorError::new(ErrorCode::TlsInvalid, format!("{} cannot be read: {error}", path.display()))
    })
}

pub(crate) fn tls_acceptor(tls: &TlsFiles) -> Result<TlsAcceptor, OperatorError> {
    let invalid = |path: &Path, why: &dyn Display| {
        OperatorError::new(ErrorCode::TlsInvalid, format!("{}: {why}", path.display()))
    };
    let pem = read_file(&tls.certificate)?;
    let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<_, _>>()
        .map_err(|error| invalid(&tls.certificate, &error))?;
    if chain.is_empty() {
        return Err(invalid(&tls.certificate, &"it contains no certificate in PEM"));
    }
    let key = PrivateKeyDer::from_pem_slice(&read_file(&tls.key)?).map_err(|error| invalid(&tls.key, &error))?;
    let mut config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| invalid(&tls.certificate, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
