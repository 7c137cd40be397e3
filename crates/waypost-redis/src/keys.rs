//! The name of every key and channel. The part in braces is what Redis Cluster places a key by: all
//! keys that one script touches share it.

use std::fmt::Write as _;
use std::sync::Arc;

use waypost_core::id::{ExecutionId, InstanceId, WorkerId};

/// Bytes of a name that are spelled out in a key; longer ones are named by their digest.
const NAME_BYTES_MAX: usize = 200;

/// Names keys.
#[derive(Clone, Debug)]
pub struct Keys {
    prefix: Arc<str>,
}

impl Keys {
    /// The prefix was checked by [`RedisConfig`](crate::Config).
    pub(crate) fn new(prefix: &str) -> Self {
        Self { prefix: prefix.into() }
    }

    /// The stream of tasks for a handler.
    pub fn tasks(&self, handler: &str) -> String {
        self.key("tasks", handler)
    }

    /// Which offers are in that stream: a hash from the offer's digest to its entry.
    pub fn offered(&self, handler: &str) -> String {
        self.key("offered", handler)
    }

    /// The handlers that tasks were offered to: a set.
    pub fn handlers(&self) -> String {
        format!("{}handlers", self.prefix)
    }

    /// The stream of mail to an instance.
    pub fn results(&self, instance: InstanceId) -> String {
        self.key("results", &instance.to_string())
    }

    /// The state that an execution was parked with.
    pub fn context(&self, execution: &ExecutionId) -> String {
        self.key("execution:context", execution.as_str())
    }

    /// The owner of an execution, for people who inspect Redis.
    pub fn lock(&self, execution: &ExecutionId) -> String {
        self.key("lock:execution", execution.as_str())
    }

    /// An instance's sign of life.
    pub fn instance(&self, instance: InstanceId) -> String {
        self.key("heartbeat:instance", &instance.to_string())
    }

    /// A worker's sign of life.
    pub fn worker(&self, worker: WorkerId) -> String {
        self.key("heartbeat:worker", &worker.to_string())
    }

    /// A worker's cancellations: a hash from the token's digest to the sealed token.
    pub fn cancels(&self, worker: WorkerId) -> String {
        self.key("cancels", &worker.to_string())
    }

    /// A key that is written to find out whether Redis can be written to.
    pub fn probe(&self) -> String {
        format!("{}probe", self.prefix)
    }

    /// The channel of nudges to all instances.
    pub fn nudges(&self) -> String {
        format!("{}nudge", self.prefix)
    }

    /// The channel of nudges to one instance.
    pub fn nudges_to(&self, instance: InstanceId) -> String {
        self.key("nudge", &instance.to_string())
    }

    /// The channel that announces mail in an instance's stream.
    pub fn bell(&self, instance: InstanceId) -> String {
        self.key("bell", &instance.to_string())
    }

    /// The channel of answers to a sender of mail.
    pub fn answers(&self, instance: InstanceId) -> String {
        self.key("acks", &instance.to_string())
    }

    fn key(&self, kind: &str, name: &str) -> String {
        format!("{}{kind}:{{{}}}", self.prefix, spell(name))
    }
}

/// A name as part of a key. Names come from users; one with a brace in it would place two keys of a
/// script on different servers, and one of a megabyte would be sent with every command.
fn spell(name: &str) -> String {
    if name.len() > NAME_BYTES_MAX {
        return format!("~{}", blake3::hash(name.as_bytes()).to_hex());
    }
    let mut spelled = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' | b'.' | b':' | b'/' => {
                spelled.push(char::from(byte));
            }
            _ => write!(spelled, "%{byte:02x}").expect("a string takes everything"),
        }
    }
    // An empty tag is no tag to a cluster.
    if spelled.is_empty() { "%".to_owned() } else { spelled }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_operators_know() {
        let keys = Keys::new("waypost:");
        let execution = ExecutionId("exe_01".into());
        for (key, name) in [
            (keys.tasks("api-call"), "waypost:tasks:{api-call}"),
            (keys.tasks("each[1]/a"), "waypost:tasks:{each%5b1%5d/a}"),
            (keys.context(&execution), "waypost:execution:context:{exe_01}"),
            (keys.lock(&execution), "waypost:lock:execution:{exe_01}"),
        ] {
            assert_eq!(key, name);
        }
    }

    #[test]
    fn hostile_names_stay_inside_their_braces() {
        let keys = Keys::new("");
        let long = "x".repeat(1 << 20);
        for name in ["", "}", "{}", "}{a}", "a}b", "a b", "\r\n", "\0", "%", "é", &long] {
            let (tasks, offered) = (keys.tasks(name), keys.offered(name));
            let tag =
                |key: &str| key[key.find('{').unwrap() + 1..key.find('}').unwrap()].to_owned();
            assert_eq!(tag(&tasks), tag(&offered));
            assert!(!tag(&tasks).is_empty() && tasks.ends_with('}') && tasks.len() < 512);
            assert_eq!(tasks.matches(['{', '}']).count(), 2, "{tasks}");
        }
        assert_ne!(keys.tasks("%"), keys.tasks(""));
        assert_ne!(keys.tasks("a%20"), keys.tasks("a "));
    }
}
