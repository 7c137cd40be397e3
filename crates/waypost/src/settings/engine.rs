//! Settings of the engine's inner workings: intervals and limits that few people ever change. They have
//! one flag together, `--set NAME=VALUE`.

use anyhow::{Context, Result, bail};
use waypost_core::time::Millis;
use waypost_engine::config::Config;

use super::{Sources, parse};

/// One of them.
struct Setting {
    name: &'static str,
    read: fn(&Config) -> String,
    write: fn(&mut Config, &str) -> Result<()>,
    /// What a value must be, and whether it is so.
    fits: (&'static str, fn(&Config) -> bool),
}

macro_rules! settings {
    ($($name:ident: $kind:ident, $what:literal, |$config:ident| $fits:expr;)*) => {
        const SETTINGS: &[Setting] = &[$(Setting {
            name: stringify!($name),
            read: |config| config.$name.to_string(),
            write: |config, text| {
                config.$name = settings!(@$kind stringify!($name), text);
                Ok(())
            },
            fits: ($what, |$config| $fits),
        }),*];
        /// Names that the settings file may use.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
    (@span $name:expr, $text:ident) => {
        Millis::parse($text).with_context(|| format!("setting {}: {:?}", $name, $text))?
    };
    (@number $name:expr, $text:ident) => {
        parse($name, $text)?
    };
}

settings! {
    lease: span, "between 3s and 10m", |config| (3_000..=600_000).contains(&config.lease.0);
    poll_every: span, "between 100ms and 1m", |config| (100..=60_000).contains(&config.poll_every.0);
    reconcile_every: span, "between 1s and 1h", |config| (1_000..=3_600_000).contains(&config.reconcile_every.0);
    claim_batch: number, "between 1 and 10000", |config| (1..=10_000).contains(&config.claim_batch);
    remote_max: number, "at most 10000000", |config| config.remote_max <= 10_000_000;
    backlog_max: number, "at least 1", |config| config.backlog_max > 0;
    polls_max: number, "at least 1", |config| config.polls_max > 0;
    batch_frames_max: number, "between 1 and 10000", |config| (1..=10_000).contains(&config.batch_frames_max);
    frame_commands_max: number, "between 1 and 100000", |config| (1..=100_000).contains(&config.frame_commands_max);
    snapshot_bytes_min: number, "at least 1024", |config| config.snapshot_bytes_min >= 1_024;
    id_block_size: number, "between 1 and 1000000", |config| (1..=1_000_000).contains(&config.id_block_size);
    offer_again: span, "between 1s and 1h", |config| (1_000..=3_600_000).contains(&config.offer_again.0);
    offer_again_max: span, "between offer_again and 1d",
        |config| (config.offer_again.0..=86_400_000).contains(&config.offer_again_max.0);
    crashes_max: number, "between 1 and 100", |config| (1..=100).contains(&config.crashes_max);
    queued_too_long: span, "at least 1s", |config| config.queued_too_long.0 >= 1_000;
}

/// Decides them all.
pub(super) fn decide(config: &mut Config, set: &[String], sources: &mut Sources<'_>) -> Result<()> {
    let mut flags = Vec::with_capacity(set.len());
    for one in set {
        let Some((name, value)) = one.split_once('=') else {
            bail!("--set {one}: it is NAME=VALUE, for example lease=15s");
        };
        if !NAMES.contains(&name) {
            bail!("--set {name}: no such setting; known are: {}", NAMES.join(", "));
        }
        flags.push((name, value));
    }
    for setting in SETTINGS {
        // The last one counts, as with every flag.
        let flag = flags.iter().rev().find(|(name, _)| *name == setting.name);
        let flag = flag.map(|(_, value)| (*value).to_owned());
        let value = sources.pick(setting.name, flag, &(setting.read)(config));
        (setting.write)(config, &value)?;
    }
    for Setting { name, fits: (what, fits), .. } in SETTINGS {
        if !fits(config) {
            bail!("setting {name} must be {what}");
        }
    }
    // Three signs of life within a lease: one may be lost, and its answer waited for.
    config.heartbeat_every = Millis(config.lease.0 / 3);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decided(set: &[&str]) -> Result<Config> {
        let nothing = |_: &str| None;
        let mut sources =
            Sources { environment: &nothing, file: Default::default(), shown: Vec::new() };
        let mut config = Config::default();
        let set: Vec<String> = set.iter().map(|one| (*one).to_owned()).collect();
        decide(&mut config, &set, &mut sources)?;
        Ok(config)
    }

    #[test]
    fn what_nobody_sets_stays_as_it_is() {
        assert_eq!(format!("{:?}", decided(&[]).unwrap()), format!("{:?}", Config::default()));
    }

    #[test]
    fn the_last_one_counts_and_signs_of_life_go_with_the_lease() {
        let config = decided(&["lease=30s", "claim_batch=7", "lease=6s"]).unwrap();
        assert_eq!((config.lease, config.claim_batch), (Millis(6_000), 7));
        assert_eq!(config.heartbeat_every, Millis(2_000));
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        for (set, part) in [
            ("lease", "NAME=VALUE"),
            ("leese=5s", "no such setting"),
            ("lease=soon", "setting lease"),
            ("lease=1s", "lease must be between 3s and 10m"),
            ("claim_batch=0", "between 1 and 10000"),
            ("claim_batch=-1", "setting claim_batch"),
            ("offer_again=10m", "offer_again_max"),
        ] {
            let error = format!("{:#}", decided(&[set]).unwrap_err());
            assert!(error.contains(part), "{set}: {error}");
        }
    }
}
