//! Where the values of settings go, and the rules about more than one of them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use reqwest::Url;
use waypost_core::time::Millis;
use waypost_engine::config::Config;
use waypost_nodes::egress::{Allowance, Egress};
use waypost_server::config::Tls;

use super::value::SecretUrl;
use super::{Remote, Settings};

/// The database that the instances of a cluster share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Database {
    /// `postgres://user:password@host:port/name?sslmode=verify-full`
    pub url: SecretUrl,
    /// The schema that holds the tables.
    pub schema: String,
    /// Connections for API requests; the engine has its own.
    pub connections: u32,
    /// The engine's lease: a renewal that takes longer is useless.
    pub lease: Millis,
}

/// The Redis of a cluster.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RedisSettings {
    /// `redis://user:password@host:port/0`, or `rediss://` for TLS.
    pub url: SecretUrl,
    /// What all keys begin with.
    pub prefix: String,
    /// The certificate, PEM, of the authority that signed the server's, if the system does not know it.
    pub authority: Option<PathBuf>,
}

/// What the instances of a cluster share; nothing if executions live in a folder.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Cluster {
    /// The store of executions.
    pub database: Option<Database>,
    /// Makes the cluster faster.
    pub redis: Option<RedisSettings>,
}

/// Where blobs are.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum BlobPlace {
    /// Files of this machine, or of a file system that all instances share.
    Folder(PathBuf),
    /// The database of the cluster.
    Postgres,
    /// A bucket. Its credentials are found as the tools of AWS find them.
    S3(S3Settings),
}

/// A bucket of S3, or of a service that is compatible with it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct S3Settings {
    pub bucket: String,
    /// What all keys begin with; may be empty.
    pub prefix: String,
    /// Where it is, if not in AWS.
    pub endpoint: Option<String>,
    pub region: Option<String>,
}

/// The settings of blobs as they are given.
#[derive(Default)]
pub(super) struct BlobSettings {
    pub(super) place: String,
    pub(super) endpoint: Option<String>,
    pub(super) region: Option<String>,
}

/// The values of all settings, before the rules about more than one of them are checked.
pub(super) struct Draft {
    pub(super) data: PathBuf,
    pub(super) engine: Config,
    pub(super) nodes: waypost_nodes::Settings,
    pub(super) allow_egress: Vec<String>,
    pub(super) database: Database,
    pub(super) redis: RedisSettings,
    pub(super) blobs: BlobSettings,
    pub(super) server: waypost_server::config::Config,
    pub(super) tls: Tls,
    pub(super) remote: Remote,
}

impl Draft {
    /// The defaults.
    pub(super) fn new(data: PathBuf) -> Self {
        let engine = Config::default();
        Self {
            data,
            nodes: waypost_nodes::Settings { shell_enabled: true, ..Default::default() },
            allow_egress: Vec::new(),
            database: Database {
                url: SecretUrl::default(),
                schema: "waypost".to_owned(),
                connections: 16,
                lease: engine.lease,
            },
            redis: RedisSettings {
                url: SecretUrl::default(),
                prefix: "waypost:".to_owned(),
                authority: None,
            },
            blobs: BlobSettings::default(),
            server: waypost_server::config::Config::default(),
            tls: Tls { certificate: PathBuf::new(), key: PathBuf::new() },
            remote: Remote::default(),
            engine,
        }
    }

    /// Checks the rules about more than one setting, and builds what depends on several.
    pub(super) fn finish(self) -> Result<Settings> {
        let Self { data, mut engine, mut nodes, database, redis, mut server, tls, .. } = self;
        if engine.offer_again_max < engine.offer_again {
            bail!("setting offer_again_max must be at least offer_again, {}", engine.offer_again);
        }
        // Three heartbeats within a lease: one may be lost, and the response to one may take long.
        engine.heartbeat_every = Millis(engine.lease.0 / 3);
        let allowances = self.allow_egress.iter().map(|target| {
            target.parse::<Allowance>().with_context(|| format!("setting allow_egress: {target:?}"))
        });
        nodes.egress = Egress::new(allowances.collect::<Result<Vec<_>>>()?);
        let is_set = |path: &PathBuf| !path.as_os_str().is_empty();
        if is_set(&tls.certificate) != is_set(&tls.key) {
            bail!("settings tls_certificate and tls_key go together; one is missing");
        }
        server.tls = is_set(&tls.key).then_some(tls);
        let database = Database { lease: engine.lease, ..database };
        let cluster = Cluster {
            database: (!database.url.0.is_empty()).then_some(database),
            redis: (!redis.url.0.is_empty()).then_some(redis),
        };
        if cluster.database.is_none() && cluster.redis.is_some() {
            bail!(
                "redis_url is for a cluster, which needs database_url as well: Redis alone is no backend"
            );
        }
        let blobs = self.blobs.finish(&data, cluster.database.is_some())?;
        let remote = self.remote;
        let (secrets, sources, shown) = Default::default();
        Ok(Settings {
            data,
            cluster,
            blobs,
            engine,
            nodes,
            server,
            remote,
            secrets,
            sources,
            shown,
        })
    }
}

impl BlobSettings {
    fn finish(self, data: &Path, has_database: bool) -> Result<BlobPlace> {
        let Self { place, endpoint, region } = self;
        if let Some(rest) = place.strip_prefix("s3://") {
            let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            let prefix = prefix.trim_matches('/').to_owned();
            let bucket = bucket.to_owned();
            return Ok(BlobPlace::S3(S3Settings { bucket, prefix, endpoint, region }));
        }
        if endpoint.is_some() || region.is_some() {
            bail!("settings blobs_endpoint and blobs_region are for blobs = \"s3://bucket\"");
        }
        match (place.as_str(), place.strip_prefix("folder:")) {
            (_, Some(folder)) => Ok(BlobPlace::Folder(folder.into())),
            ("postgres", _) if !has_database => {
                bail!("blobs = \"postgres\" is for a cluster, which needs database_url as well")
            }
            ("postgres", _) => Ok(BlobPlace::Postgres),
            _ if has_database => Ok(BlobPlace::Postgres),
            _ => Ok(BlobPlace::Folder(data.join("blobs"))),
        }
    }
}

pub(super) fn blob_place(text: &str) -> Result<String> {
    let is_bucket = |bucket: &str| {
        (3..=63).contains(&bucket.len())
            && bucket.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b))
    };
    let s3 = text.strip_prefix("s3://").map(|rest| rest.split('/').next().unwrap_or_default());
    let folder = text.strip_prefix("folder:").is_some_and(|path| !path.is_empty());
    match text == "postgres" || folder || s3.is_some_and(is_bucket) {
        true => Ok(text.to_owned()),
        false => bail!("it must be folder:PATH, postgres or s3://bucket/prefix"),
    }
}

pub(super) fn blob_endpoint(text: &str) -> Result<String> {
    match Url::parse(text).context("not a URL")? {
        url if !matches!(url.scheme(), "http" | "https") => {
            bail!("it must begin with http:// or https://")
        }
        url if (url.username(), url.password()) != ("", None) => {
            bail!(
                "credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, not from the URL"
            )
        }
        _ => Ok(text.trim_end_matches('/').to_owned()),
    }
}

pub(super) fn database_url(text: &str) -> Result<String> {
    match Url::parse(text).context("not a URL")?.scheme() {
        "postgres" | "postgresql" => Ok(text.to_owned()),
        _ => bail!("it must begin with postgres:// or postgresql://"),
    }
}

pub(super) fn database_schema(text: &str) -> Result<String> {
    match text.chars().find(|c| !c.is_ascii_alphanumeric() && *c != '_') {
        Some(wrong) => bail!("{wrong:?} is neither a letter, a digit nor _"),
        None => Ok(text.to_owned()),
    }
}

/// The URL of a Redis Cluster has several hosts: `Url` would reject it.
pub(super) fn redis_url(text: &str) -> Result<String> {
    waypost_redis::RedisConfig::new(text).check()?;
    Ok(text.to_owned())
}

/// `http://10.0.0.7:7070`: scheme, host and port, and nothing else.
pub(super) fn advertise_url(text: &str) -> Result<String> {
    const WRONG: &str = "not a URL like http://10.0.0.7:7070 or https://a.example.com, without \
                         user, path or query";
    let url = Url::parse(text).context(WRONG)?;
    let bare = matches!(url.scheme(), "http" | "https")
        && url.host_str().is_some_and(|host| !host.is_empty())
        && (url.username(), url.password()) == ("", None)
        && (url.path(), url.query(), url.fragment()) == ("/", None, None)
        // What the parser accepts silently: `http:/host`, line ends, an empty user.
        && text.contains("://")
        && !text.contains(|c: char| c == '@' || c == '\\' || c.is_whitespace() || c.is_control());
    match bare {
        true => Ok(url.as_str().trim_end_matches('/').to_owned()),
        false => bail!(WRONG),
    }
}

/// `https://flows.example.com`, perhaps with the path under which a proxy publishes this server.
pub(super) fn public_url(text: &str) -> Result<String> {
    const WRONG: &str =
        "not a URL like https://flows.example.com/waypost, without user, query or fragment";
    let url = Url::parse(text).context(WRONG)?;
    let mut root = url.clone();
    root.set_path("/");
    let is_plain = (url.query(), url.fragment()) == (None, None) && !url.path().contains("//");
    match is_plain && !text.contains(['\\', '\n', '\t', ' ', '@']) {
        true => advertise_url(root.as_str()).context(WRONG)?,
        false => bail!(WRONG),
    };
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_url_may_have_a_path() {
        for (text, expected) in [
            ("https://flows.example.com", "https://flows.example.com"),
            ("https://flows.example.com/", "https://flows.example.com"),
            ("http://[fd00::7]:7070/a/b/", "http://[fd00::7]:7070/a/b"),
        ] {
            assert_eq!(public_url(text).unwrap(), expected);
        }
        for wrong in [
            "flows.example.com",
            "ftp://flows.example.com",
            "https://ann:canary@flows.example.com",
            "https://flows.example.com?x=1",
            "https://flows.example.com/#top",
            "https://flows.example.com//a",
            "https://flows.example.com/a b",
        ] {
            let error = format!("{:#}", public_url(wrong).unwrap_err());
            assert!(!error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn redis_url_is_checked_by_the_redis_client() {
        for url in ["redis://h", "rediss://u:p@h:1/2", "redis+cluster://a:6379,b:6379"] {
            redis_url(url).unwrap();
        }
        for url in ["h:6379", "http://u:canary@h", "redis://u:canary@a:1,b:2", "redis://"] {
            let error = format!("{:#}", redis_url(url).unwrap_err());
            assert!(!error.contains("canary"), "{error}");
        }
    }

    #[test]
    fn place_of_blobs_follows_the_backend_unless_it_is_set() {
        let place = |text: &str, has_database| {
            let place = if text.is_empty() { String::new() } else { blob_place(text).unwrap() };
            let settings = BlobSettings { place, ..BlobSettings::default() };
            settings.finish(Path::new("/data"), has_database)
        };
        let bucket = |bucket: &str, prefix: &str| {
            let (bucket, prefix) = (bucket.to_owned(), prefix.to_owned());
            BlobPlace::S3(S3Settings { bucket, prefix, ..S3Settings::default() })
        };
        for (text, has_database, expected) in [
            ("", false, BlobPlace::Folder("/data/blobs".into())),
            ("", true, BlobPlace::Postgres),
            ("postgres", true, BlobPlace::Postgres),
            ("folder:/mnt/blobs", true, BlobPlace::Folder("/mnt/blobs".into())),
            ("s3://bucket", false, bucket("bucket", "")),
            ("s3://bucket/a/b/", true, bucket("bucket", "a/b")),
        ] {
            assert_eq!(place(text, has_database).unwrap(), expected, "{text}");
        }
        assert!(place("postgres", false).is_err());
        for wrong in ["/mnt/blobs", "folder:", "s3://", "s3://a", "gs://bucket", "s3://bu cket"] {
            assert!(blob_place(wrong).is_err(), "{wrong}");
        }
        let lost = BlobSettings { region: Some("eu-1".to_owned()), ..BlobSettings::default() };
        assert!(lost.finish(Path::new("/data"), false).is_err());
        assert!(blob_endpoint("https://u:canary@h").is_err());
        assert_eq!(blob_endpoint("http://h:9000/").unwrap(), "http://h:9000");
    }

    #[test]
    fn advertise_url_is_an_address_and_nothing_else() {
        for (text, expected) in [
            ("http://10.0.0.7:7070", "http://10.0.0.7:7070"),
            ("https://a.example.com/", "https://a.example.com"),
            ("http://[fd00::7]:7070", "http://[fd00::7]:7070"),
        ] {
            assert_eq!(advertise_url(text).unwrap(), expected);
        }
        for wrong in [
            "10.0.0.7:7070",
            "a.example.com",
            "/path",
            "ftp://a.example.com",
            "http://",
            "http://ann:secret@a.example.com",
            "http://ann@a.example.com",
            "http://@a.example.com",
            "http://a.example.com/waypost",
            "http://a.example.com?x=1",
            "http://a.example.com/#top",
            "http:a.example.com",
            "http://a.example.com\n",
            "http:\\\\a.example.com",
            "http://a b",
        ] {
            assert!(advertise_url(wrong).is_err(), "{wrong:?}");
        }
    }
}
