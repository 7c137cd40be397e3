//! `waypost blob`: stores and reads blobs, through a server or in the place that the settings name. Content is
//! streamed: it is never in memory as a whole.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use waypost_core::blob::{BlobDigest, BlobRef};
use waypost_ports::blobs::Blobs;

use super::{Context, Exit, Usage};
use crate::backend;
use crate::client::Client;
use crate::output::{print_line, print_table, progress_line};
use crate::settings::Settings;
use crate::target;

/// Bytes between two lines of progress.
const PROGRESS_BYTES: u64 = 4 << 20;

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Action {
    /// Store a file, or standard input, and print its digest
    Put {
        /// The file; standard input if absent or `-`
        file: Option<PathBuf>,
    },
    /// Write a blob to standard output
    Get {
        /// The digest, as `blob put` prints it
        digest: String,
        /// Write it to this file instead
        #[arg(long, value_name = "FILE")]
        to: Option<PathBuf>,
    },
    /// Show how large a blob is
    Stat {
        /// The digest, as `blob put` prints it
        digest: String,
    },
}

pub(crate) async fn run(action: Action, context: &Context) -> Result<Exit> {
    match action {
        Action::Put { file } => put(file, context).await,
        Action::Get { digest, to } => get(&parse(&digest)?, to, context).await,
        Action::Stat { digest } => stat(&parse(&digest)?, context).await,
    }
}

fn parse(digest: &str) -> Result<BlobDigest> {
    digest.parse().map_err(|error| Usage(format!("{digest:?}: {error}")).into())
}

/// Where blobs are put and read.
enum BlobTarget {
    Server(Client),
    Here(Arc<dyn Blobs>),
}

impl BlobTarget {
    fn open(settings: &Settings) -> Result<Self> {
        if let Some(client) = target::server(settings)? {
            return Ok(Self::Server(client));
        }
        backend::create(settings)?;
        let backend = backend::open(settings)?;
        Ok(Self::Here(backend::open_blobs(&backend, settings)?))
    }
}

async fn put(file: Option<PathBuf>, context: &Context) -> Result<Exit> {
    let content: Box<dyn Read + Send> = match file.filter(|file| file != Path::new("-")) {
        Some(file) => {
            let open = || format!("cannot read {}", file.display());
            Box::new(File::open(&file).with_context(open)?)
        }
        None => Box::new(io::stdin()),
    };
    let mut content = Counted::new(content, "stored");
    let limit = context.settings.server.blob_bytes_max;
    let blob = match BlobTarget::open(&context.settings)? {
        BlobTarget::Server(client) => client.put_blob(content).await?,
        BlobTarget::Here(blobs) => {
            tokio::task::spawn_blocking(move || blobs.put(&mut content, limit)).await??
        }
    };
    progress_line("");
    context.show(&blob, || print_line(&blob.digest.to_string()))
}

async fn get(digest: &BlobDigest, to: Option<PathBuf>, context: &Context) -> Result<Exit> {
    let output: Box<dyn Write + Send> = match &to {
        Some(to) => {
            Box::new(File::create(to).with_context(|| format!("cannot write {}", to.display()))?)
        }
        None => Box::new(io::stdout()),
    };
    let written = read(digest, Counted::new(output, "read"), context).await;
    progress_line("");
    if written.is_err()
        && let Some(to) = &to
    {
        // Half a blob must not be taken for one.
        std::fs::remove_file(to).with_context(|| format!("cannot remove {}", to.display()))?;
    }
    written.map(|()| Exit::Done)
}

async fn read(
    digest: &BlobDigest,
    mut output: Counted<Box<dyn Write + Send>>,
    context: &Context,
) -> Result<()> {
    match BlobTarget::open(&context.settings)? {
        BlobTarget::Server(client) => {
            let mut response = client.get_blob(digest).await?;
            let mut hasher = blake3::Hasher::new();
            while let Some(chunk) = client.next_piece(&mut response).await? {
                hasher.update(&chunk);
                output.write_all(&chunk).context("cannot write the blob")?;
            }
            if hasher.finalize().as_bytes() != &digest.0 {
                bail!("what the server sent is not blob {digest}");
            }
            output.flush().context("cannot write the blob")
        }
        BlobTarget::Here(blobs) => {
            let digest = *digest;
            let copy = move || {
                for piece in blobs.open(&digest)?.read(..) {
                    output.write_all(&piece?).context("cannot write the blob")?;
                }
                output.flush().context("cannot write the blob")
            };
            tokio::task::spawn_blocking(copy).await?
        }
    }
}

async fn stat(digest: &BlobDigest, context: &Context) -> Result<Exit> {
    let (blob, stored) = match BlobTarget::open(&context.settings)? {
        BlobTarget::Server(client) => (client.stat_blob(digest).await?, None),
        BlobTarget::Here(blobs) => {
            let digest = *digest;
            let stat = tokio::task::spawn_blocking(move || blobs.stat(&digest)).await??;
            (stat.blob, Some(stat))
        }
    };
    let BlobRef { digest, bytes } = blob;
    let mut shown = json!({ "digest": digest, "bytes": bytes });
    let mut rows = vec![("digest", digest.to_string()), ("bytes", bytes.to_string())];
    if let Some(stat) = stored {
        shown["storedBytes"] = stat.stored_bytes.into();
        shown["touchedAt"] = stat.touched_at.to_string().into();
        rows.push(("stored bytes", stat.stored_bytes.to_string()));
        rows.push(("touched at", stat.touched_at.to_string()));
    }
    context.show(&shown, || print_table(&rows))
}

/// Shows how much has been moved.
struct Counted<T> {
    inner: T,
    verb: &'static str,
    bytes: u64,
    shown: u64,
}

impl<T> Counted<T> {
    fn new(inner: T, verb: &'static str) -> Self {
        Self { inner, verb, bytes: 0, shown: 0 }
    }

    fn count(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if self.bytes - self.shown >= PROGRESS_BYTES {
            self.shown = self.bytes;
            progress_line(&format!("{} {} MiB", self.verb, self.bytes >> 20));
        }
    }
}

impl<T: Read> Read for Counted<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buffer)?;
        self.count(bytes);
        Ok(bytes)
    }
}

impl<T: Write> Write for Counted<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.count(written);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
