//! Mail: put, then wake; and reading it.

use waypost_core::id::ExecutionNo;

use super::Tables;
use crate::store::{Mail, MailDelivery, MailOf};

impl Tables {
    /// A whole delivery, with nothing in between.
    pub fn deliver(&mut self, mail: &Mail) -> MailDelivery {
        match self.put(mail) {
            MailDelivery::Accepted { .. } => self.wake(mail),
            other => other,
        }
    }

    /// Mails what became of the messages that nodes wait for; returns the executions.
    pub(super) fn report_deliveries(&mut self) -> Vec<ExecutionNo> {
        let results = self.outbox.resolve();
        for result in &results {
            self.deliver(&result.mail());
        }
        results.into_iter().map(|result| result.execution).collect()
    }

    /// The first half of a delivery: the mail is durable where it was accepted.
    pub fn put(&mut self, mail: &Mail) -> MailDelivery {
        let Some(row) = self.control.get(&mail.execution) else {
            return match self.frames_from(mail.execution, 0).next() {
                Some(_) => MailDelivery::Ended,
                None => MailDelivery::Unknown,
            };
        };
        let same =
            |known: &Mail| known.execution == mail.execution && known.message == mail.message;
        if self.inbox.iter().any(same) {
            return MailDelivery::Duplicate;
        }
        self.blobs.reference(mail.execution, &mail.blobs);
        self.inbox.push(Mail { blobs: Vec::new(), ..mail.clone() });
        MailDelivery::Accepted { owner: row.control.owner }
    }

    /// The second half: makes an unowned addressee ready. If it has ended meanwhile, the log says
    /// whether it took this mail; the rest of its mail is deleted.
    pub fn wake(&mut self, mail: &Mail) -> MailDelivery {
        let Some(row) = self.control.get_mut(&mail.execution) else {
            self.inbox.retain(|other| other.execution != mail.execution);
            return MailDelivery::Ended;
        };
        if row.control.owner.is_none() && row.listens_to(mail) {
            row.control.ready = true;
        }
        MailDelivery::Accepted { owner: row.control.owner }
    }

    /// The mail of all executions that an instance owns.
    pub fn collect(&self, of: MailOf, limit: usize) -> Vec<Mail> {
        let wanted = |mail: &&Mail| match of {
            MailOf::Execution(execution) => mail.execution == execution,
            MailOf::Owner(owner, share) => {
                let row = self.control.get(&mail.execution);
                share.has(mail.execution) && row.is_some_and(|row| row.control.owner == Some(owner))
            }
        };
        self.inbox.iter().filter(wanted).take(limit).cloned().collect()
    }
}
