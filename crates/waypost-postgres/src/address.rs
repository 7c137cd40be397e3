//! The address of the database, and how its certificate is verified.
//!
//! `postgres://user:password@host:port/database?sslmode=disable|prefer|require|verify-full&sslrootcert=file`
//!
//! A certificate is verified wherever TLS is used, except for a server on this machine without
//! `verify-full`. The password is never printed.

use std::fmt;
use std::future::poll_fn;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;
use tokio::task::AbortHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{AsyncMessage, Client, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;
use url::Url;
use waypost_ports::store::StoreError;

/// How long a connection may take to be made, with everything that belongs to it: names, TLS, passwords,
/// the session's first statement.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// After this time without an acknowledgement a connection counts as lost. Shorter than a lease, so
/// that an instance notices in time that it cannot renew its own.
const TCP_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(crate) struct Address {
    config: tokio_postgres::Config,
    tls: Option<MakeRustlsConnect>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.describe())
    }
}

impl Address {
    pub(crate) fn parse(url: &str) -> Result<Self, StoreError> {
        // The fault may be next to the password, so neither is repeated.
        let bad = |what: &str| StoreError::Refused(format!("the URL of the database {what}"));
        let mut url = Url::parse(url).map_err(|error| bad(&format!("cannot be read: {error}")))?;
        if !["postgres", "postgresql"].contains(&url.scheme()) {
            return Err(bad("must begin with postgres://"));
        }
        let UrlOptions { mode, verify, root, rest } = UrlOptions::of(&url)?;
        url.set_query(None);
        if !rest.is_empty() {
            url.query_pairs_mut().extend_pairs(&rest);
        }
        let mut config: tokio_postgres::Config =
            url.as_str().parse().map_err(|_| bad("has parameters that cannot be read"))?;
        config.ssl_mode(mode);
        config.tcp_user_timeout(TCP_TIMEOUT).keepalives(true);
        config.keepalives_idle(TCP_TIMEOUT / 2).keepalives_interval(TCP_TIMEOUT / 5);
        config.keepalives_retries(3);
        let tls = match mode {
            SslMode::Disable => None,
            _ if !verify && config.get_hosts().iter().all(is_here) => Some(trusting()),
            _ => Some(verifying(root.as_deref())?),
        };
        Ok(Self { config, tls })
    }

    /// Connects under a name that identifies the connection in `pg_stat_activity`, and transports its
    /// statements on a Tokio task, which passes on the server's asynchronous messages. The caller gives
    /// up after `patience`, within which each of several hosts is tried.
    pub(crate) async fn connect(
        &self,
        name: &str,
        patience: Duration,
        on_message: impl FnMut(AsyncMessage) + Send + 'static,
    ) -> Result<(Client, AbortHandle), tokio_postgres::Error> {
        let mut config = self.config.clone();
        let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
        config.application_name(name).connect_timeout(patience / hosts);
        match &self.tls {
            Some(tls) => connect_by(&config, tls.clone(), on_message).await,
            None => connect_by(&config, NoTls, on_message).await,
        }
    }

    /// Where it is, without secrets.
    pub(crate) fn describe(&self) -> String {
        let hosts: Vec<String> = self.config.get_hosts().iter().map(host_name).collect();
        let database = self.config.get_dbname().unwrap_or_default();
        format!("{}/{database}", hosts.join(","))
    }
}

async fn connect_by<T: MakeTlsConnect<Socket, Stream: Send + 'static>>(
    config: &tokio_postgres::Config,
    tls: T,
    mut on_message: impl FnMut(AsyncMessage) + Send + 'static,
) -> Result<(Client, AbortHandle), tokio_postgres::Error> {
    let (client, mut connection) = config.connect(tls).await?;
    let driver = tokio::spawn(async move {
        // Ends with the connection, which ends with its client once that has all its answers.
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            on_message(message);
        }
    });
    Ok((client, driver.abort_handle()))
}

/// Options of a URL that the driver does not read.
struct UrlOptions {
    mode: SslMode,
    verify: bool,
    root: Option<PathBuf>,
    rest: Vec<(String, String)>,
}

impl UrlOptions {
    fn of(url: &Url) -> Result<Self, StoreError> {
        let mut asked = Self { mode: SslMode::Prefer, verify: false, root: None, rest: Vec::new() };
        for (name, value) in url.query_pairs() {
            match (&*name, &*value) {
                ("sslmode", "disable") => asked.mode = SslMode::Disable,
                ("sslmode", "prefer") => asked.mode = SslMode::Prefer,
                ("sslmode", "require") => asked.mode = SslMode::Require,
                ("sslmode", "verify-full") => {
                    asked.mode = SslMode::Require;
                    asked.verify = true;
                }
                ("sslmode", other) => {
                    return Err(StoreError::Refused(format!(
                        "sslmode={other} is not known: use disable, prefer, require or verify-full"
                    )));
                }
                ("sslrootcert", file) => asked.root = Some(file.into()),
                (name, value) => asked.rest.push((name.to_owned(), value.to_owned())),
            }
        }
        Ok(asked)
    }
}

fn host_name(host: &Host) -> String {
    match host {
        Host::Tcp(name) => name.clone(),
        Host::Unix(path) => path.display().to_string(),
    }
}

fn is_here(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost"
                || name
                    .trim_matches(['[', ']'])
                    .parse()
                    .is_ok_and(|ip: std::net::IpAddr| ip.is_loopback())
        }
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

fn builder() -> rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier> {
    ClientConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions of TLS")
}

/// Trusts the certificates of a file, or those of the platform.
fn verifying(root: Option<&Path>) -> Result<MakeRustlsConnect, StoreError> {
    let config = match root {
        Some(file) => builder().with_root_certificates(read_roots(file)?),
        None => {
            let verifier = Verifier::new(provider()).map_err(|error| {
                StoreError::Refused(format!("there are no trusted certificates: {error}"))
            })?;
            let builder = builder().dangerous();
            builder.with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}

fn read_roots(file: &Path) -> Result<RootCertStore, StoreError> {
    let refuse = |why: String| StoreError::Refused(format!("{}: {why}", file.display()));
    let mut roots = RootCertStore::empty();
    let certificates =
        CertificateDer::pem_file_iter(file).map_err(|error| refuse(error.to_string()))?;
    for certificate in certificates {
        let certificate = certificate.map_err(|error| refuse(error.to_string()))?;
        roots.add(certificate).map_err(|error| refuse(error.to_string()))?;
    }
    match roots.is_empty() {
        true => Err(refuse("there is no certificate in it".to_owned())),
        false => Ok(roots),
    }
}

/// Accepts any certificate: for servers on this machine, whose certificates have no authority.
fn trusting() -> MakeRustlsConnect {
    let anybody = Arc::new(Anybody(provider()));
    let builder = builder().dangerous().with_custom_certificate_verifier(anybody);
    MakeRustlsConnect::new(builder.with_no_client_auth())
}

#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
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
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
