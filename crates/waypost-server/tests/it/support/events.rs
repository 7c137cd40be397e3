//! Reading a stream of events.

use serde_json::Value;

use super::{Ask, Client, House};

/// Something that a stream said.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Word {
    /// An event.
    Event(Event),
    /// A comment.
    Comment(String),
}

#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) data: Value,
}

/// A stream that is open.
pub(crate) struct Events {
    client: Client,
    unread: String,
}

impl Events {
    /// Opens a stream that stays open.
    pub(crate) async fn follow(house: &House, target: &str, last: Option<&str>) -> Self {
        let ask = Ask::get(target).header("Accept", "text/event-stream");
        let ask = match last {
            Some(last) => ask.header("Last-Event-ID", last),
            None => ask,
        };
        Self::open(house.connect().await, house, &ask).await
    }

    pub(crate) async fn open(mut client: Client, house: &House, ask: &Ask) -> Self {
        client.send(&ask.bytes(house.address)).await.unwrap();
        let head = super::client::with_timeout(client.head()).await.unwrap();
        assert_eq!(head.status, 200, "{ask:?}");
        assert_eq!(head.header("content-type"), Some("text/event-stream"));
        Self { client, unread: String::new() }
    }

    /// What it says next; `None` when it has ended.
    pub(crate) async fn next_word(&mut self) -> Option<Word> {
        loop {
            if let Some((word, rest)) = self.unread.split_once("\n\n") {
                let word = parse(word);
                self.unread = rest.to_owned();
                match word {
                    Some(word) => return Some(word),
                    None => continue,
                }
            }
            // A connection that is cut is an end, too.
            let piece = super::client::with_timeout(self.client.chunk()).await.ok()??;
            self.unread.push_str(&String::from_utf8(piece).unwrap());
        }
    }

    /// The next event; `None` when it has ended.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Word::Event(event) = self.next_word().await? {
                return Some(event);
            }
        }
    }

    /// Everything up to its end.
    pub(crate) async fn rest(&mut self) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await {
            events.push(event);
        }
        events
    }
}

/// A block of lines; `None` for one that only says how soon to come back.
fn parse(block: &str) -> Option<Word> {
    let (mut id, mut kind, mut data) = (String::new(), String::new(), String::new());
    for line in block.lines() {
        match line.split_once(": ") {
            Some(("id", value)) => id = value.to_owned(),
            Some(("event", value)) => kind = value.to_owned(),
            Some(("data", value)) => data.push_str(value),
            Some(("", comment)) => return Some(Word::Comment(comment.to_owned())),
            Some(("retry", _)) => {}
            other => panic!("{other:?} in {block:?}"),
        }
    }
    if kind.is_empty() {
        return None;
    }
    Some(Word::Event(Event { id, kind, data: serde_json::from_str(&data).unwrap() }))
}
