//! Sockets: accepting, limits, timeouts, TLS, and the end.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, Cursor};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::service::{HttpService, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::call::ReplyBody;
use super::dispatch::{self, Peer};
use super::stall::Stall;
use crate::access::keys::REFRESH_EVERY;
use crate::config::{Config, Tls};
use crate::server::Server;

/// Bytes at the beginning of every HTTP/2 connection.
const PREFACE_BYTES: usize = 24;
/// How long a TLS handshake may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// Bytes that a socket takes and cannot send yet.
#[cfg(target_os = "linux")]
const UNSENT_BYTES_MAX: u32 = 128 * 1024;
const HEADERS_MAX: usize = 100;
/// Requests that may be under way on one HTTP/2 connection.
const REQUESTS_PER_CONNECTION_MAX: u32 = 200;
/// How long connections may take to end after everything else has.
const GOODBYE_MAX: Duration = Duration::from_secs(5);
/// How long accepting rests after it failed: for want of file descriptors, most likely.
const REST: Duration = Duration::from_millis(50);

/// A socket that is listened on.
pub struct Listener {
    socket: TcpListener,
    tls: Option<TlsAcceptor>,
}

impl Listener {
    /// Binds the address of a configuration, and reads its certificate.
    pub async fn bind(config: &Config) -> io::Result<Self> {
        let tls = config.tls.as_ref().map(acceptor).transpose()?;
        Ok(Self { socket: TcpListener::bind(config.address).await?, tls })
    }

    /// Where it listens; has the real port if the configured one is 0.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Where it listens, as a URL. A wildcard address stays as it is: which of the machine's
    /// addresses clients use is unknown.
    pub fn url(&self) -> io::Result<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Ok(format!("{scheme}://{}", self.address()?))
    }

    /// Its URL for clients on this machine.
    pub fn local_url(&self) -> io::Result<String> {
        let address = self.address()?;
        let loopback = match address.ip() {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED) => Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
            IpAddr::V6(Ipv6Addr::UNSPECIFIED) => Some(IpAddr::V6(Ipv6Addr::LOCALHOST)),
            _ => None,
        };
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let ip = loopback.unwrap_or(address.ip());
        Ok(format!("{scheme}://{}", SocketAddr::new(ip, address.port())))
    }
}

fn acceptor(tls: &Tls) -> io::Result<TlsAcceptor> {
    let named = |path: &std::path::Path, error: &dyn std::fmt::Display| {
        io::Error::other(format!("{}: {error}", path.display()))
    };
    let chain = CertificateDer::pem_file_iter(&tls.certificate)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| named(&tls.certificate, &error))?;
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| named(&tls.key, &error))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| named(&tls.certificate, &error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves until the server closes, then lets requests under way end.
pub async fn serve(server: Arc<Server>, listener: Listener) {
    let graceful = GracefulShutdown::new();
    let target = ConnectionLimits::new(&server.config);
    server.tasks.spawn(refresh_keys(Arc::clone(&server)));
    loop {
        let accepted = tokio::select! { // both are cancel-safe
            accepted = listener.socket.accept() => accepted,
            () = server.closing.cancelled() => break,
        };
        let (stream, address) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(REST).await;
                continue;
            }
        };
        let Some(pass) = target.admit(address.ip()) else {
            server.metrics.http_connections_refused_total.add(1);
            continue;
        };
        let (server, tls, watcher) =
            (Arc::clone(&server), listener.tls.clone(), graceful.watcher());
        server.tasks.spawn({
            let server = Arc::clone(&server);
            async move {
                server.metrics.http_connections.add(1);
                connection(&server, stream, address, tls, watcher).await;
                server.metrics.http_connections.add(-1);
                drop(pass);
            }
        });
    }
    drop(listener);
    // Elapsed: a client keeps its connection; the process ends anyway.
    drop(tokio::time::timeout(GOODBYE_MAX, graceful.shutdown()).await);
}

/// Keeps unread replies out of the kernel's memory, too, which would take megabytes for each: a
/// socket gets no more than it can send. Bytes on the network are not bounded by this.
fn limit_unsent(stream: &TcpStream) {
    #[cfg(target_os = "linux")]
    drop(socket2::SockRef::from(stream).set_tcp_notsent_lowat(UNSENT_BYTES_MAX));
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

async fn connection(
    server: &Arc<Server>,
    stream: TcpStream,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    watcher: Watcher,
) {
    // Small replies are not to wait for more.
    drop(stream.set_nodelay(true));
    limit_unsent(&stream);
    let peer = Peer { address, connection: CancellationToken::new() };
    let stream = Stall::new(stream, server.config.stall_timeout);
    let Some(tls) = tls else {
        return speak_http1(server, TokioIo::new(stream), peer, watcher).await;
    };
    match tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream)).await {
        Ok(Ok(mut stream)) if stream.get_ref().1.alpn_protocol() == Some(b"h2") => {
            // Hyper's own timers begin with the HTTP/2 preface, which may never come.
            let mut preface = [0; PREFACE_BYTES];
            let read = stream.read_exact(&mut preface);
            if let Ok(Ok(_)) = tokio::time::timeout(server.config.header_timeout, read).await {
                let (rest, writer) = tokio::io::split(stream);
                let stream = tokio::io::join(Cursor::new(preface).chain(rest), writer);
                speak_http2(server, TokioIo::new(stream), peer, watcher).await;
            }
        }
        Ok(Ok(stream)) => speak_http1(server, TokioIo::new(stream), peer, watcher).await,
        Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => tracing::debug!("a TLS handshake took too long"),
    }
}

/// The service of one connection.
fn service(
    server: &Arc<Server>,
    peer: Peer,
) -> impl HttpService<Incoming, ResBody = ReplyBody, Error = Infallible, Future: Send> + use<> {
    let server = Arc::clone(server);
    service_fn(move |request: Request<Incoming>| {
        let (server, peer) = (Arc::clone(&server), peer.clone());
        async move { Ok::<_, Infallible>(dispatch::answer(server, request, peer).await) }
    })
}

/// Logs why a connection ended, unless its client caused it.
fn note_end(served: Option<hyper::Result<()>>) {
    match served {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%error, "a connection ended badly"),
        None => tracing::debug!("a connection was dropped: its client reads too slowly"),
    }
}

async fn speak_http1<I>(server: &Arc<Server>, io: I, peer: Peer, watcher: Watcher)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let config = &server.config;
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(config.header_timeout)
        .max_buf_size(config.header_bytes_max)
        .max_headers(HEADERS_MAX)
        .serve_connection(io, service(server, peer.clone()));
    let served = peer.connection.run_until_cancelled(watcher.watch(connection)).await;
    note_end(served);
}

async fn speak_http2<I>(server: &Arc<Server>, io: I, peer: Peer, watcher: Watcher)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let config = &server.config;
    let header_bytes = u32::try_from(config.header_bytes_max).unwrap_or(u32::MAX);
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .max_header_list_size(header_bytes)
        .max_concurrent_streams(REQUESTS_PER_CONNECTION_MAX)
        .keep_alive_interval(config.header_timeout)
        .keep_alive_timeout(config.header_timeout)
        .serve_connection(io, service(server, peer.clone()));
    let served = peer.connection.run_until_cancelled(watcher.watch(connection)).await;
    note_end(served);
}

/// Reads the keys again, to notice those that another process revoked.
async fn refresh_keys(server: Arc<Server>) {
    loop {
        tokio::select! { // both are cancel-safe
            () = tokio::time::sleep(REFRESH_EVERY) => {}
            () = server.closing.cancelled() => return,
        }
        let read =
            server.blocking_first(|server| Ok(server.keys.refresh(server.reader.backend())?)).await;
        if let Err(problem) = read {
            tracing::warn!(%problem, "could not reload API keys");
        }
    }
}

/// How many may come in.
struct ConnectionLimits {
    all: Arc<Semaphore>,
    each: Arc<Mutex<HashMap<IpAddr, usize>>>,
    each_max: usize,
}

struct Pass {
    _all: OwnedSemaphorePermit,
    each: Arc<Mutex<HashMap<IpAddr, usize>>>,
    address: IpAddr,
}

impl ConnectionLimits {
    fn new(config: &Config) -> Self {
        let each_max = match config.is_loopback() {
            // All clients on this machine have one address.
            true => usize::MAX,
            false => config.connections_per_address_max,
        };
        let all = Arc::new(Semaphore::new(config.connections_max));
        Self { all, each: Arc::default(), each_max }
    }

    fn admit(&self, address: IpAddr) -> Option<Pass> {
        let all = Arc::clone(&self.all).try_acquire_owned().ok()?;
        let mut each = self.each.lock();
        let count = each.entry(address).or_insert(0);
        if *count >= self.each_max {
            return None;
        }
        *count += 1;
        Some(Pass { _all: all, each: Arc::clone(&self.each), address })
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut each = self.each.lock();
        if let Some(count) = each.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                each.remove(&self.address);
            }
        }
    }
}
