//! The secrets of a task: opened with this worker's key, and given to commands as environment variables.
//!
//! They take the way of an instance's own secrets from here on: places in the config, values that are
//! inserted just before the handler is called, and an outcome that is searched for them.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;
use waypost_core::expr::Placeholder;
use waypost_core::failure::{Failure, kind};
use waypost_core::id::{ExecutionId, Token};
use waypost_core::json::Json;
use waypost_engine::sealed_secrets::{SealedFor, SealedText};
use waypost_ports::secret::{Grant, SecretRefused, SecretText, Secrets, WorkerGrants};
use waypost_server::wire::SealedSecrets;

use super::delivery::TaskDelivery;

/// The one handler that takes secrets from a `worker` node here.
const COMMANDS: &str = "shell";

/// The values that one task was given.
struct Opened(BTreeMap<String, SecretText>);

impl Secrets for Opened {
    fn resolve(&self, name: &str, _workflow: &str) -> Result<Grant, SecretRefused> {
        let value = self.0.get(name).ok_or_else(|| SecretRefused::Unknown(name.into()))?;
        // The instance that sealed it checked that workers of this handler may have it.
        let (hosts, workers) = ([].into(), WorkerGrants::default());
        Ok(Grant {
            name: name.into(),
            value: value.clone(),
            hosts,
            shell: true,
            workers,
            verify: false,
        })
    }
}

/// The fields of an object, as they are written.
type WrittenFields = BTreeMap<String, Json>;

type Supplied = (Json, Vec<Placeholder>, Arc<dyn Secrets>);

impl TaskDelivery<'_> {
    /// The config with places for the secrets that came with the task, and where their values are.
    pub(super) fn with_secrets(&self, config: Json) -> Result<Supplied, Failure> {
        let Some(sealed) = &self.task.secrets else {
            return Ok((config, Vec::new(), Arc::clone(&self.worker.options.secrets)));
        };
        if self.task.handler != COMMANDS {
            let handler = &self.task.handler;
            let message = format!(
                "the handler {handler:?} of `waypost worker` takes no `secrets`: use a node of type \
                 {handler:?} instead, whose secrets are inserted by the server"
            );
            return Err(refused(message));
        }
        let opened = self.open(sealed)?;
        let (config, places) = with_places(&config, opened.0.keys())?;
        Ok((config, places, Arc::new(opened)))
    }

    fn open(&self, sealed: &SealedSecrets) -> Result<Opened, Failure> {
        let broken =
            || refused("the secrets of the task are not in the form of the protocol".into());
        let decode = |text: &str| BASE64_STANDARD.decode(text).map_err(|_| broken());
        let sealed =
            SealedText { enc: decode(&sealed.enc)?, ciphertext: decode(&sealed.ciphertext)? };
        let token = u128::from_str_radix(&self.task.token, 16).unwrap_or_default();
        let execution = ExecutionId(self.task.execution.as_str().into());
        let delivery = SealedFor {
            execution: &execution,
            node: &self.task.node,
            attempt: self.task.attempt,
            token: Token(token),
        };
        let keys = self.worker.keys.as_ref().ok_or_else(broken)?;
        let text = keys.open(&delivery, &sealed).map_err(|error| refused(error.to_string()))?;
        // A parser's message could quote a secret.
        let values: BTreeMap<String, String> =
            serde_json::from_slice(&text).map_err(|_| broken())?;
        let secret = |(name, value): (String, String)| {
            SecretText::new(&value).ok().map(|value| (name, value))
        };
        let values: Option<BTreeMap<_, _>> = values.into_iter().map(secret).collect();
        Ok(Opened(values.ok_or_else(broken)?))
    }
}

/// The config of a command with an empty environment variable for each of these names, and the places
/// of their values. A variable of the config itself with such a name is replaced.
fn with_places<'a>(
    config: &Json,
    names: impl Iterator<Item = &'a String>,
) -> Result<(Json, Vec<Placeholder>), Failure> {
    let not_an_object = || {
        let message = "the input of the handler \"shell\" must be an object";
        Failure { unsent: true, ..Failure::permanent(kind::INVALID_CONFIG, message) }
    };
    let object =
        |text: &str| serde_json::from_str::<WrittenFields>(text).map_err(|_| not_an_object());
    let mut config = object(config.text())?;
    let env = config.remove("env").filter(|env| !env.is_null());
    let mut env = env.map_or_else(|| Ok(WrittenFields::new()), |env| object(env.text()))?;
    let mut text = String::from(r#"{"env":{"#);
    let mut places = Vec::new();
    for name in names {
        env.remove(name);
        if !places.is_empty() {
            text.push(',');
        }
        text.push_str(&Value::from(name.as_str()).to_string());
        text.push_str(":\"");
        places.push(Placeholder { at: text.len(), name: name.as_str().into() });
        text.push('"');
    }
    let mut comma = !places.is_empty();
    let mut push = |text: &mut String, fields: WrittenFields| {
        for (name, value) in fields {
            if std::mem::replace(&mut comma, true) {
                text.push(',');
            }
            text.push_str(&format!("{}:{}", Value::from(name), value.text()));
        }
    };
    push(&mut text, env);
    text.push('}');
    push(&mut text, config);
    text.push('}');
    Ok((Json::parse_own(&text).map_err(Failure::from)?, places))
}

fn refused(message: String) -> Failure {
    Failure { unsent: true, ..Failure::permanent(kind::SECRET, message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_become_empty_variables_with_places() {
        let filled = |config: &str, names: &[&str]| {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            let (config, places) =
                with_places(&Json::parse(config).unwrap(), names.iter()).unwrap();
            let mut text = config.text().to_owned();
            for place in places.iter().rev() {
                text.insert_str(place.at, &format!("<{}>", place.name));
            }
            text
        };
        assert_eq!(
            filled(r#"{"command":"x","env":{"A":"1","B":null},"n":1.50}"#, &["B", "C"]),
            r#"{"env":{"B":"<B>","C":"<C>","A":"1"},"command":"x","n":1.50}"#
        );
        assert_eq!(filled("{}", &["A"]), r#"{"env":{"A":"<A>"}}"#);
        let refused = |config: &str| {
            let names = ["A".to_owned()];
            with_places(&Json::parse(config).unwrap(), names.iter()).unwrap_err().kind
        };
        assert_eq!(refused("[1]"), kind::INVALID_CONFIG);
        assert_eq!(refused(r#"{"env":5}"#), kind::INVALID_CONFIG);
    }
}
