//! The mailbox of one execution: commands in the order in which they came.

use std::collections::VecDeque;
use std::vec;

use waypost_core::command::Command;
use waypost_core::event::MessageId;
use waypost_core::path::At;

use super::Letter;
use crate::driver::io::Ticket;

/// Commands that wait for the next decision.
#[derive(Default)]
pub(in crate::driver) struct Mailbox(VecDeque<MailboxEntry>);

enum MailboxEntry {
    Letter(Letter),
    /// The evaluations that follow one commit, never none. A wide execution has ten thousand of them
    /// at once, and as a letter each would take the room of the largest command.
    Evaluations(vec::IntoIter<(At, u32)>),
}

impl Mailbox {
    pub(in crate::driver) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, letter: Letter) {
        self.0.push_back(MailboxEntry::Letter(letter));
    }

    pub(super) fn push_evaluations(&mut self, nodes: Vec<(At, u32)>) {
        if !nodes.is_empty() {
            self.0.push_back(MailboxEntry::Evaluations(nodes.into_iter()));
        }
    }

    /// Takes the first letter if it is wanted.
    pub(super) fn pop_if(&mut self, wanted: impl FnOnce(&Command) -> bool) -> Option<Letter> {
        match self.0.front_mut()? {
            MailboxEntry::Letter(letter) => {
                if !wanted(&letter.command) {
                    return None;
                }
                match self.0.pop_front()? {
                    MailboxEntry::Letter(letter) => Some(letter),
                    MailboxEntry::Evaluations(_) => None,
                }
            }
            MailboxEntry::Evaluations(nodes) => {
                let (node, attempt) = *nodes.as_slice().first()?;
                let command = Command::Evaluate { node, attempt };
                if !wanted(&command) {
                    return None;
                }
                nodes.next();
                if nodes.len() == 0 {
                    self.0.pop_front();
                }
                Some(Letter::command(command))
            }
        }
    }

    /// Drops letters that came as mail with these messages.
    pub(super) fn drop_mail(&mut self, messages: &[MessageId]) {
        let of = |mail: &Option<MessageId>| mail.as_ref().is_some_and(|it| messages.contains(it));
        self.0.retain(|entry| match entry {
            MailboxEntry::Letter(letter) => !of(&letter.mail),
            MailboxEntry::Evaluations(_) => true,
        });
    }

    /// Whose requests wait in it.
    pub(super) fn into_tickets(self) -> Vec<Ticket> {
        let ticket = |entry| match entry {
            MailboxEntry::Letter(letter) => letter.ticket,
            MailboxEntry::Evaluations(_) => None,
        };
        self.0.into_iter().filter_map(ticket).collect()
    }
}

#[cfg(test)]
mod tests {
    use waypost_core::id::NodeIx;
    use waypost_core::path::ScopeNo;

    use super::*;

    #[test]
    fn mailbox_with_letters_and_evaluations_keeps_their_order() {
        let at = |node| At { scope: ScopeNo::ROOT, node: NodeIx(node) };
        let mut mailbox = Mailbox::default();
        mailbox.push(Letter::command(Command::Tick));
        mailbox.push_evaluations(vec![(at(1), 1), (at(2), 3)]);
        mailbox.push_evaluations(Vec::new());
        mailbox.push(Letter::command(Command::Recover));
        let evaluate = |node, attempt| Command::Evaluate { node: at(node), attempt };
        for expected in [Command::Tick, evaluate(1, 1), evaluate(2, 3), Command::Recover] {
            assert!(mailbox.pop_if(|command| *command != expected).is_none(), "it is refused");
            let letter = mailbox.pop_if(|command| *command == expected);
            assert_eq!(letter.map(|letter| letter.command), Some(expected));
        }
        assert!(mailbox.is_empty());
    }
}
