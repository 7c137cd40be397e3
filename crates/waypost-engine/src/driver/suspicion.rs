//! Executions that were in hand when a process died. Those that may have killed it are decided one at a
//! time; see `ports/store/suspicion.rs`.

use waypost_core::id::ExecutionId;
use waypost_ports::store::SUSPECT_FROM;

use super::Driver;

/// What a control row says of deaths with the execution in hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Suspicion {
    /// Deaths that count against it.
    pub crashes: u32,
    /// Has it not been decided since it was taken?
    pub doubt: bool,
}

impl Suspicion {
    /// Was it in hand at a death, and has made no progress since?
    pub fn is_some(self) -> bool {
        self.crashes > 0
    }

    /// Is it to be decided while no other suspect is?
    pub fn is_alone(self) -> bool {
        self.doubt && self.crashes >= SUSPECT_FROM
    }
}

impl Driver {
    /// An execution is not in doubt any more: the next suspect may be taken.
    pub(super) fn settled(&mut self, execution: ExecutionId) {
        if self.doubted.remove(&execution) {
            self.claims.nudge(self.now);
        }
    }
}
