//! The flags of settings, made from the table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};

use super::draft::Draft;
use super::table::{Flag, Setting, all};

/// What the command line sets: the values by the name of their setting.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// The settings file.
    pub config: Option<PathBuf>,
    pub(super) values: BTreeMap<&'static str, String>,
}

/// The flags that only `waypost serve` takes.
#[derive(Clone, Debug, Default)]
pub struct ServerFlags(BTreeMap<&'static str, String>);

impl Flags {
    /// With a value for a setting.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.values.insert(name, value.into());
        self
    }

    /// With those of the server.
    pub fn with_server(mut self, flags: &ServerFlags) -> Self {
        self.values.extend(flags.0.clone());
        self
    }
}

impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(clap::value_parser!(PathBuf))
            .help("Settings file");
        let set = Arg::new("set")
            .long("set")
            .value_name("NAME=VALUE")
            .action(ArgAction::Append)
            .hide(true)
            .value_parser(parse_set)
            .help("One of the engine's intervals and limits, as the reference lists them");
        let of_settings = all().filter(|setting| is_global(setting)).filter_map(arg);
        command.args(of_settings.chain([config, set]).map(|arg| arg.global(true)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.config = matches.get_one("config").cloned();
        self.values = given(matches, is_global);
        // The last one counts, as with every flag.
        let set = matches.get_many::<(&'static str, String)>("set").unwrap_or_default();
        self.values.extend(set.cloned());
        Ok(())
    }
}

impl Args for ServerFlags {
    fn augment_args(command: Command) -> Command {
        command.args(all().filter(|setting| !is_global(setting)).filter_map(arg))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ServerFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(given(matches, |setting| !is_global(setting))))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

fn is_global(setting: &Setting) -> bool {
    !matches!(setting.flag, Flag::Serve(_))
}

/// The argument of a setting; none for those that `--set` sets.
fn arg(setting: &'static Setting) -> Option<Arg> {
    let (usage, hidden) = match setting.flag {
        Flag::Any(usage) | Flag::Serve(usage) => (usage, false),
        Flag::Rare(usage) => (usage, true),
        Flag::Set(_) => return None,
    };
    let (long, value) = usage.trim_start_matches("--").split_once(' ')?;
    let name = value.trim_matches(['[', '<', '>', '.', ']']);
    let hint = match name {
        "FILE" => ValueHint::FilePath,
        "FOLDER" => ValueHint::DirPath,
        "URL" => ValueHint::Url,
        _ => ValueHint::Unknown,
    };
    let help = setting.help.split(". ").next()?.trim_end_matches('.').replace('`', "");
    let arg = Arg::new(setting.name).long(long).value_name(name).value_hint(hint);
    let arg = arg.help(help).hide(hidden);
    // The error of clap repeats the value, and a URL may contain a password: `Settings` checks those.
    let arg = match hint {
        ValueHint::Url => arg,
        _ => arg.value_parser(move |text: &str| check(setting, text)),
    };
    Some(match value {
        optional if optional.starts_with('[') => arg.num_args(0..=1).default_missing_value("true"),
        repeated if repeated.ends_with("...") => arg.action(ArgAction::Append),
        _ => arg,
    })
}

fn check(setting: &Setting, text: &str) -> Result<String, String> {
    match (setting.assign)(&mut Draft::new(PathBuf::new()), text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(format!("{error:#}")),
    }
}

fn parse_set(text: &str) -> Result<(&'static str, String), String> {
    let Some((name, value)) = text.split_once('=') else {
        return Err("it is NAME=VALUE, for example lease=15s".to_owned());
    };
    let known: Vec<_> = all().filter(|setting| matches!(setting.flag, Flag::Set(_))).collect();
    match known.iter().find(|setting| setting.name == name) {
        Some(setting) => Ok((setting.name, check(setting, value)?)),
        None => {
            let known: Vec<_> = known.iter().map(|setting| setting.name).collect();
            Err(format!("no such setting; known are: {}", known.join(", ")))
        }
    }
}

/// The values of the flags that were given.
fn given(matches: &ArgMatches, of: impl Fn(&Setting) -> bool) -> BTreeMap<&'static str, String> {
    let flags = all().filter(|setting| of(setting) && !matches!(setting.flag, Flag::Set(_)));
    let values = flags.filter_map(|setting| {
        let values: Vec<String> = matches.get_many(setting.name)?.cloned().collect();
        Some((setting.name, values.join(",")))
    });
    values.collect()
}
