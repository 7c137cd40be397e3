//! The TLS settings of every client in the program: the platform's certificates, and a provider
//! that needs no installation in the process.

use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// Reads the platform's certificates; worth doing once.
pub fn client_config() -> ClientConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions of TLS");
    let mut config = match verifier(provider) {
        Some(verifier) => builder.dangerous().with_custom_certificate_verifier(verifier),
        // Plain http still works; https fails on every certificate, as it must.
        None => builder.with_root_certificates(RootCertStore::empty()),
    }
    .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

fn verifier(provider: Arc<CryptoProvider>) -> Option<Arc<Verifier>> {
    match Verifier::new(provider) {
        Ok(verifier) => Some(Arc::new(verifier)),
        Err(error) => {
            tracing::warn!(%error, "no trusted certificates found: https calls will fail");
            None
        }
    }
}
