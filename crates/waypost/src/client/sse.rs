//! Reading server-sent events: bytes in, messages out. As the HTML standard has it, apart from
//! `retry`, which we decide ourselves, and with bounds, which it does not have.

use anyhow::{Result, bail};

/// Bytes that a message may have: an event carries a few payloads of the largest size at most.
const MESSAGE_BYTES_MAX: usize = 32 << 20;

/// One message.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Message {
    /// The position to continue from, if it has one.
    pub(super) id: Option<String>,
    /// Its type; empty where it names none.
    pub(super) kind: String,
    /// Its content.
    pub(super) data: String,
}

/// Reads a stream piece by piece.
#[derive(Default)]
pub(super) struct SseParser {
    line: Vec<u8>,
    /// Was the last byte a carriage return, whose line feed is still to come?
    after_return: bool,
    message: Message,
    has_data: bool,
}

impl SseParser {
    /// Takes the next bytes; returns the messages that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Message>> {
        let mut messages = Vec::new();
        for &byte in bytes {
            let half = std::mem::replace(&mut self.after_return, byte == b'\r');
            match byte {
                b'\n' if half => {}
                b'\n' | b'\r' => messages.extend(self.end_line()),
                _ => self.line.push(byte),
            }
            if self.line.len() + self.message.data.len() > MESSAGE_BYTES_MAX {
                bail!("the server sent an event of more than {MESSAGE_BYTES_MAX} bytes");
            }
        }
        Ok(messages)
    }

    /// An empty line ends a message; any other one is a field of it, or a comment.
    fn end_line(&mut self) -> Option<Message> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        if line.is_empty() {
            let message = std::mem::take(&mut self.message);
            return std::mem::take(&mut self.has_data).then_some(message);
        }
        let (field, value) = line.split_once(':').unwrap_or((&line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.message.id = Some(value.to_owned()),
            "event" => self.message.kind = value.to_owned(),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.message.data.push('\n');
                }
                self.message.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(id: Option<&str>, kind: &str, data: &str) -> Message {
        Message { id: id.map(str::to_owned), kind: kind.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn messages_come_whole_however_they_are_cut() {
        let text = "retry: 1000\n\n: alive\n\nid: 1\nevent: RunCreated\ndata: {\"a\":1}\n\n\
                    id: 2\r\ndata:x\r\ndata: y: z\r\n\r\nevent: end\rdata: {}\r\runfinished: 1\n";
        let expected = [
            message(Some("1"), "RunCreated", "{\"a\":1}"),
            message(Some("2"), "", "x\ny: z"),
            message(None, "end", "{}"),
        ];
        for size in 1..text.len() {
            let mut parser = SseParser::default();
            let pieces = text.as_bytes().chunks(size);
            let found: Vec<_> = pieces.flat_map(|piece| parser.push(piece).unwrap()).collect();
            assert_eq!(found, expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_refused() {
        let mut parser = SseParser::default();
        let piece = vec![b'x'; 1 << 20];
        let refused = (0..64).find_map(|_| parser.push(&piece).err());
        assert!(refused.is_some_and(|error| error.to_string().contains("bytes")));
    }
}
