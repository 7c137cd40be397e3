//! Commands to Redis, and how answers are read. An answer is input from outside: every shape is
//! possible, and one that is not understood is no answer.

use std::fmt;
use std::sync::{Arc, LazyLock};

use redis::{Cmd, ServerError, Value};

use crate::wire::{Down, Wire};

/// Commands that are sent together.
pub(crate) const BATCH_MAX: usize = 256;
/// Bytes that are sent together: they cross a slow network well within the response time.
pub(crate) const BATCH_BYTES_MAX: usize = 1 << 20;

/// A script. All of them return how many wrong values they found and repaired, and then their own
/// result.
pub(crate) struct Script {
    text: &'static str,
    hash: LazyLock<String>,
}

macro_rules! scripts {
    ($($name:ident = $file:literal;)*) => {
        $(pub(crate) static $name: Script = {
            const TEXT: &str = concat!(
                include_str!("../scripts/own.lua"), include_str!(concat!("../scripts/", $file)));
            Script {
                text: TEXT,
                hash: LazyLock::new(|| redis::Script::new(TEXT).get_hash().to_owned()),
            }
        };)*

        /// All of them, so that a new connection can load them before it is used.
        pub(crate) static SCRIPTS: &[&Script] = &[$(&$name),*];
    };
}

scripts! {
    ABANDON = "abandon.lua";
    ACKNOWLEDGE = "acknowledge.lua";
    ACQUIRE = "acquire.lua";
    CANCEL = "cancel.lua";
    CLAIM = "claim.lua";
    DEPTH = "depth.lua";
    HANDLERS = "handlers.lua";
    HEAR = "hear.lua";
    OFFER = "offer.lua";
    PEEK = "peek.lua";
    POST = "post.lua";
    RELEASE = "release.lua";
    RENEW = "renew.lua";
    TAKE = "take.lua";
    WITHDRAW = "withdraw.lua";
}

impl Script {
    /// The command that loads it into a server.
    pub(crate) fn load(&self) -> Ask {
        Ask::command("SCRIPT").arg("LOAD").arg(self.text)
    }
}

/// One command or script call.
pub(crate) struct Ask {
    what: What,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
}

enum What {
    Command(&'static str),
    Script(&'static Script),
}

impl Ask {
    pub(crate) fn command(name: &'static str) -> Self {
        Self { what: What::Command(name), keys: Vec::new(), arguments: Vec::new() }
    }

    pub(crate) fn script(script: &'static Script) -> Self {
        Self { what: What::Script(script), keys: Vec::new(), arguments: Vec::new() }
    }

    /// The next key that it touches. Commands and scripts name their keys before all else.
    pub(crate) fn key(mut self, key: &str) -> Self {
        self.keys.push(key.as_bytes().to_vec());
        self
    }

    pub(crate) fn arg(mut self, argument: impl AsRef<[u8]>) -> Self {
        self.arguments.push(argument.as_ref().to_vec());
        self
    }

    pub(crate) fn number(self, number: u64) -> Self {
        self.arg(number.to_string())
    }

    /// About how many bytes it is.
    pub(crate) fn bytes(&self) -> usize {
        self.keys.iter().chain(&self.arguments).map(Vec::len).sum()
    }

    /// As it is sent first: a script by its hash.
    pub(crate) fn short(&self) -> Cmd {
        self.evaluated("EVALSHA", |script| &script.hash)
    }

    /// As it is sent where the server has forgotten the script: with its text.
    pub(crate) fn whole(&self) -> Cmd {
        self.evaluated("EVAL", |script| script.text)
    }

    fn evaluated(&self, verb: &str, name: fn(&'static Script) -> &'static str) -> Cmd {
        let mut command = match self.what {
            What::Command(name) => redis::cmd(name),
            What::Script(script) => {
                let mut call = redis::cmd(verb);
                call.arg(name(script)).arg(self.keys.len());
                call
            }
        };
        for part in self.keys.iter().chain(&self.arguments) {
            command.arg(part.as_slice());
        }
        command
    }
}

/// The answer: a value, or an error of this one command.
pub(crate) type CommandResult = Result<Value, ServerError>;

/// The values that a script returned. `None` if it was rejected, or returned something that no script
/// of ours does.
pub(crate) type ScriptResult = Option<Vec<Value>>;

impl Wire {
    /// Runs scripts, and blocks until there are results: one for each, in order.
    pub(crate) fn ask_scripts(self: &Arc<Self>, asks: Vec<Ask>) -> Result<Vec<ScriptResult>, Down> {
        Ok(self.ask(asks)?.into_iter().map(|answer| self.read(answer)).collect())
    }

    /// Runs scripts, from a thread of this crate.
    pub(crate) async fn run_scripts(&self, asks: Vec<Ask>) -> Result<Vec<ScriptResult>, Down> {
        Ok(self.run(asks).await?.into_iter().map(|answer| self.read(answer)).collect())
    }

    /// A script's result, after its repairs were counted.
    fn read(&self, answer: CommandResult) -> ScriptResult {
        let refused = |why: &dyn fmt::Debug| {
            tracing::debug!(?why, "redis refused a command");
            self.counters.fallbacks.add(1);
        };
        let value = answer.map_err(|refusal| refused(&refusal)).ok()?;
        let Some(mut said) = list(value).filter(|said| !said.is_empty()) else {
            refused(&"unexpected answer");
            return None;
        };
        let repaired = said.remove(0);
        self.counters.repaired.add(u64::try_from(number(&repaired).unwrap_or(0)).unwrap_or(0));
        Some(said)
    }
}

/// A number, however it is written.
pub(crate) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok()?.parse().ok(),
        _ => None,
    }
}

pub(crate) fn bytes(value: Value) -> Option<Vec<u8>> {
    match value {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.into_bytes()),
        _ => None,
    }
}

pub(crate) fn text(value: Value) -> Option<String> {
    String::from_utf8(bytes(value)?).ok()
}

pub(crate) fn list(value: Value) -> Option<Vec<Value>> {
    value.into_sequence().ok()
}

/// The list that a script returned as its first value; empty if there is none.
pub(crate) fn first_list(said: ScriptResult) -> Vec<Value> {
    said.and_then(|said| list(said.into_iter().next()?)).unwrap_or_default()
}

/// Several values, as many as expected.
pub(crate) fn exactly<const N: usize>(value: Value) -> Option<[Value; N]> {
    list(value)?.try_into().ok()
}
