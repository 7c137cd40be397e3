//! Commands to Redis, and how answers are read. An answer is input from outside: every shape is
//! possible, and one that is not understood is no answer.

use std::sync::LazyLock;

use redis::{Cmd, ServerError, Value};

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
        match self.what {
            What::Command(name) => self.finish(redis::cmd(name)),
            What::Script(script) => self.finish(self.script_by("EVALSHA", &script.hash)),
        }
    }

    /// As it is sent where the server has forgotten the script: with its text.
    pub(crate) fn whole(&self) -> Cmd {
        match self.what {
            What::Command(name) => self.finish(redis::cmd(name)),
            What::Script(script) => self.finish(self.script_by("EVAL", script.text)),
        }
    }

    fn script_by(&self, verb: &str, name: &str) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(name).arg(self.keys.len());
        command
    }

    fn finish(&self, mut command: Cmd) -> Cmd {
        for part in self.keys.iter().chain(&self.arguments) {
            command.arg(part.as_slice());
        }
        command
    }
}

/// The answer: a value, or an error of this one command.
pub(crate) type CommandResult = Result<Value, ServerError>;

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

/// Several values, as many as expected.
pub(crate) fn exactly<const N: usize>(value: Value) -> Option<[Value; N]> {
    list(value)?.try_into().ok()
}
