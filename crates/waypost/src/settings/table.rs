//! The table of all settings, one line each. Flags, variables, keys of the file, checks, `waypost config`
//! and the tables of docs/reference/settings.md are made from it.
//!
//! Rules about more than one setting are in `draft.rs`.

use std::fmt;

use anyhow::{Context, Result, bail};

use super::draft::{self, Draft};
use super::value::SettingValue;

use Flag::{Any, Rare, Serve, Set};
use Must::{AtLeast, AtMost, BeAnything, Between, Pass};

/// One setting.
pub struct Setting {
    /// Its name, and its key in the file.
    pub name: &'static str,
    /// How the command line takes it.
    pub flag: Flag,
    /// Which values are valid.
    pub must: Must,
    /// What it means, in Markdown. The first sentence is the help of the flag.
    pub help: &'static str,
    /// Its value as text.
    pub(super) show: fn(&Draft) -> String,
    /// Checks and stores a value; returns it as `waypost config` shows it.
    pub(super) assign: fn(&mut Draft, &str) -> Result<String>,
}

/// How the command line takes a setting: the flag as the reference shows it.
pub enum Flag {
    /// Before or after any command.
    Any(&'static str),
    /// The same, left out of the help.
    Rare(&'static str),
    /// After `waypost serve`.
    Serve(&'static str),
    /// As `--set NAME=VALUE`; this is the kind of value.
    Set(&'static str),
}

/// Which values are valid. Bounds are written like values.
pub enum Must {
    /// Whatever has the right type.
    BeAnything,
    /// Both bounds are valid.
    Between(&'static str, &'static str),
    /// The bound is valid.
    AtLeast(&'static str),
    /// The bound is valid.
    AtMost(&'static str),
    /// What this check returns is stored; an empty text passes.
    Pass(fn(&str) -> Result<String>),
}

/// Declares the settings, in sections: `name: place in Draft, flag, valid values, meaning;`
macro_rules! settings {
    ($({ $($name:ident: $($at:ident).+, $flag:expr, $must:expr, $help:literal;)* })*) => {
        /// The sections, in the order of the reference.
        pub static SECTIONS: &[&[Setting]] = &[$(&[$(Setting {
            name: stringify!($name),
            flag: $flag,
            must: $must,
            help: $help,
            show: |draft| draft.$($at).+.show(),
            assign: |draft, text| assign(stringify!($name), &$must, text, &mut draft.$($at).+),
        }),*]),*];
    };
}

settings! {
    // Engine.
    {
        data: data, Any("--data <FOLDER>"), BeAnything, "The data folder, with all executions.";
        slots: engine.slots, Any("--slots <N>"), AtLeast("1"), "Maximum number of concurrent attempts, without those limited by `io_slots`.";
        io_slots: engine.io_slots, Rare("--io-slots <N>"), AtLeast("1"), "Maximum number of concurrent attempts of `api-call` and `llm`, which only wait for the network.";
        allow_egress: allow_egress, Any("--allow-egress <TARGET>..."), BeAnything, "Targets that `api-call` and `llm` may reach besides the public internet: host, host:port, *.suffix or network. Separate several with commas, or repeat the flag. See [the egress guard](nodes.md#the-egress-guard).";
        enable_shell: nodes.shell_enabled, Any("--enable-shell [<BOOL>]"), BeAnything, "Whether definitions may run commands on this machine; off by default in `waypost serve` and `waypost worker`. Everyone with the right to deploy could run anything there.";
        active_max: engine.active_max, Rare("--active-max <N>"), AtLeast("1"), "Maximum number of executions in memory.";
        park_after: engine.park_after, Rare("--park-after <DURATION>"), BeAnything, "An execution leaves memory if its next due time is further away than this.";
    }
    // The engine's intervals and limits.
    {
        lease: engine.lease, Set("DURATION"), Between("3s", "10m"), "How long an instance counts as alive after a heartbeat; it sends three within that time. After the lease has expired, other instances take over its executions; in the last third the instance starts no attempts. Longer: fewer unnecessary takeovers; shorter: faster takeovers.";
        poll_every: engine.poll_every, Set("DURATION"), Between("100ms", "1m"), "How often an instance polls for work and mail in the absence of notifications.";
        reconcile_every: engine.reconcile_every, Set("DURATION"), Between("1s", "1h"), "How often an instance compares the executions that it owns in the store with those in memory.";
        claim_batch: engine.claim_batch, Set("N"), Between("1", "10000"), "Maximum number of executions per claim.";
        drivers: engine.drivers, Set("N"), AtMost("64"), "Driver threads, which divide the executions in memory among themselves: an execution with thousands of nodes to decide delays only those of its driver. `0`: half of the cores, at least 1 and at most 8. `waypost run` and `resume` have one.";
        remote_max: engine.remote_max, Set("N"), AtMost("10000000"), "Executions in memory that wait for remote workers, in addition to `active_max`: a handler without workers does not block other executions.";
        backlog_max: engine.backlog_max, Set("N"), AtLeast("1"), "Maximum number of submissions that wait to be accepted; further callers are queued.";
        polls_max: engine.polls_max, Set("N"), AtLeast("1"), "Maximum number of waiting polls of workers; further ones are queued.";
        batch_frames_max: engine.batch_frames_max, Set("N"), Between("1", "10000"), "Maximum number of frames per transaction.";
        frame_commands_max: engine.frame_commands_max, Set("N"), Between("1", "100000"), "Maximum number of commands decided into one frame.";
        decide_max: engine.decide_max, Set("DURATION"), Between("1ms", "1s"), "How long one execution decides commands before other executions have their turn, an eighth of it while others wait; the rest follows after its commit. Shorter: others wait less; longer: fewer and larger frames.";
        frame_bytes_max: engine.frame_bytes_max, Set("N"), Between("1024", "67108864"), "A frame takes no further command once the payloads of its events have this many bytes; the remaining commands go into the next frame.";
        inline_bytes_max: engine.inline_bytes_max, Set("N"), Between("64", "1048576"), "Payloads of up to this many bytes are kept in the log; larger ones are kept as [blobs](blobs.md) and passed on by reference. Smaller: shorter logs; larger: fewer reads of the blob store.";
        snapshot_bytes_min: engine.snapshot_bytes_min, Set("N"), AtLeast("1024"), "How much a log grows before a snapshot is taken; more if the last snapshot was larger.";
        id_block_size: engine.id_block_size, Set("N"), Between("1", "1000000"), "How many internal execution numbers are reserved at a time.";
        offer_again: engine.offer_again, Set("DURATION"), Between("1s", "1h"), "How long a task waits for a worker to start it before it is published again; doubles each time.";
        offer_again_max: engine.offer_again_max, Set("DURATION"), Between("1s", "1d"), "The longest such interval; at least `offer_again`.";
        crashes_max: engine.crashes_max, Set("N"), Between("1", "100"), "Process deaths, each while loading or deciding one execution alone, after which that execution is quarantined. [Two deaths](../guides/operating.md#executions-that-kill-the-process) without a single suspect come before them.";
        queued_too_long: engine.queued_too_long, Set("DURATION"), AtLeast("1s"), "A node that has waited longer for a slot or a worker counts as queued too long.";
    }
    // Cluster.
    {
        database_url: database.url, Any("--database-url <URL>"), Pass(draft::database_url), "Database of a cluster, PostgreSQL 15 or newer, `postgres://user:password@host:5432/name?sslmode=verify-full`. It stores all executions; `data` is not used.";
        database_schema: database.schema, Rare("--database-schema <NAME>"), Pass(draft::database_schema), "The schema of the tables.";
        database_connections: database.connections, Rare("--database-connections <N>"), AtLeast("1"), "Connections for API requests; renewals, appends and claims have their own.";
        redis_url: redis.url, Any("--redis-url <URL>"), Pass(draft::redis_url), "Redis 7 or Valkey 8, which makes a cluster faster, `redis://user:password@host:6379/0`. `rediss://` for TLS, `redis+cluster://a:6379,b:6379` for a Redis Cluster. Optional.";
        redis_authority: redis.authority, Rare("--redis-authority <FILE>"), BeAnything, "The CA certificate of Redis, PEM; default: the system's trust store.";
        redis_prefix: redis.prefix, Rare("--redis-prefix <TEXT>"), BeAnything, "The prefix of all keys.";
    }
    // Blobs.
    {
        blobs: blobs.place, Set("PLACE"), Pass(draft::blob_place), "Where blobs are: `folder:PATH`, `postgres` or `s3://bucket/prefix`. Default: the folder `blobs` in the data folder, or the database of a cluster. All instances of a cluster must use the same place. See [blobs](blobs.md).";
        blobs_endpoint: blobs.endpoint, Set("URL"), Pass(draft::blob_endpoint), "The address of a service that is compatible with S3; default: that of AWS in `blobs_region`.";
        blobs_region: blobs.region, Set("NAME"), BeAnything, "The region of the bucket; default: `AWS_REGION`, or us-east-1.";
        blob_bytes_max: server.blob_bytes_max, Set("N"), Between("1048576", "5368709120"), "Maximum bytes of one blob.";
    }
    // Server.
    {
        listen: server.address, Serve("--listen <ADDRESS>"), BeAnything, "The address to listen on; any but loopback needs API keys. Port 0 selects a free port. See [keys](../guides/operating.md#keys-and-roles).";
        advertise_url: server.advertise_url, Serve("--advertise-url <URL>"), Pass(draft::advertise_url), "The address of this server for others, such as `http://10.0.0.7:7070`. `waypost instances`, Redis and its output show it. Scheme, host and port only. Default: the address it listens on, unchanged: `http://0.0.0.0:7070` for all addresses of the machine, with a warning in a cluster.";
        public_url: engine.public_url, Serve("--public-url <URL>"), Pass(draft::public_url), "What links for outside systems and people begin with, such as `https://flows.example.com`; it may have the path under which a proxy publishes this server. Default: `advertise_url`, or the address that the server listens on. On loopback, requests under this name are taken for links alone.";
        hosts: server.hosts, Serve("--host <NAME>..."), BeAnything, "Further host names that requests to loopback may use. Separate several with commas, or repeat the flag.";
        require_keys: server.require_keys, Serve("--require-keys [<BOOL>]"), BeAnything, "Requires a key on loopback, too.";
        tls_certificate: tls.certificate, Serve("--tls-certificate <FILE>"), BeAnything, "The certificate chain, PEM; with `tls_key` the server uses TLS.";
        tls_key: tls.key, Serve("--tls-key <FILE>"), BeAnything, "The certificate's private key, PEM.";
        reply_bytes_max: server.reply_bytes_max, Serve("--reply-bytes-max <BYTES>"), Between("4194304", "2147483648"), "Maximum bytes of responses and streams in transit, over all connections. Slow clients share them; a response that does not fit waits without using memory.";
        rate_limit: server.requests_per_second, Serve("--rate-limit <N>"), AtLeast("1"), "Requests per second of one key; bursts may be twice as large.";
        no_triggers: server.no_triggers, Serve("--no-triggers [<BOOL>]"), BeAnything, "Whether this server fires no triggers by itself: no schedules, polls, streams, windows and ends of workflows, which other instances fire, or this one after a restart without it. It still takes requests to webhook triggers, and published events.";
        trusted_proxies: server.trusted_proxies, Set("NETWORK..."), BeAnything, "Addresses and networks of proxies whose header `X-Forwarded-For` names the sender of a request, for the audit log and for limits by address.";
        allow_unsigned_hooks: server.allow_unsigned_hooks, Set("BOOL"), BeAnything, "Whether webhook triggers of scheme `none` take requests from other machines. Everyone who reaches the server could start their executions.";
        hook_rate_limit: server.hook_requests_per_second, Set("N"), AtLeast("1"), "Signed requests per second to one webhook trigger; bursts may be twice as large.";
        webhook_timeout: server.webhook_timeout, Set("DURATION"), Between("1s", "1m"), "How long a webhook endpoint may take to answer. A message whose result cannot be recorded is sent again after three times as long.";
        drain_timeout: server.drain_timeout, Serve("--drain-timeout <DURATION>"), BeAnything, "How long running attempts may take to finish after SIGTERM. The reports of `waypost worker` have [10 minutes](limits.md#waypost-worker) more.";
    }
    // Client.
    {
        server: remote.url, Any("--server <URL>"), BeAnything, "The server that commands use; by default the server of the data folder, if there is one. The API key for it is in `WAYPOST_KEY`.";
    }
}

/// All settings.
pub(super) fn all() -> impl Iterator<Item = &'static Setting> {
    SECTIONS.iter().copied().flatten()
}

impl Setting {
    /// Its environment variable.
    pub fn variable(&self) -> String {
        format!("WAYPOST_{}", self.name.to_uppercase())
    }

    /// Its flag, as the reference shows it.
    pub fn usage(&self) -> String {
        match self.flag {
            Any(flag) | Rare(flag) | Serve(flag) => flag.to_owned(),
            Set(value) => format!("--set {}=<{value}>", self.name),
        }
    }
}

impl fmt::Display for Must {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BeAnything | Pass(_) => Ok(()),
            Between(least, most) => write!(f, "between {least} and {most}"),
            AtLeast(least) => write!(f, "at least {least}"),
            AtMost(most) => write!(f, "at most {most}"),
        }
    }
}

fn assign<T: SettingValue>(name: &str, must: &Must, text: &str, at: &mut T) -> Result<String> {
    let shown = T::mask(text);
    let wrong = || format!("setting {name}: {shown:?}");
    let checked = match must {
        Pass(check) if !text.is_empty() => check(text).with_context(wrong)?,
        _ => text.to_owned(),
    };
    let value = T::parse(&checked).with_context(wrong)?;
    let bound = |text| T::parse(text).map(|bound| bound.size());
    let fits = match must {
        BeAnything | Pass(_) => true,
        Between(least, most) => (bound(least)?..=bound(most)?).contains(&value.size()),
        AtLeast(least) => value.size() >= bound(least)?,
        AtMost(most) => value.size() <= bound(most)?,
    };
    if !fits {
        bail!("setting {name} must be {must}, not {text}");
    }
    *at = value;
    Ok(shown)
}
