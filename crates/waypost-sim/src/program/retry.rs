//! What follows a failed attempt of a program's node.

/// A retry policy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RetryRule {
    /// Tries in all.
    pub max_attempts: u32,
    /// The wait before the second.
    pub wait_ms: u64,
    /// Does it double from try to try?
    pub backoff: bool,
    /// Which failures it covers.
    pub on: RetryOn,
}

/// Which failures a retry policy covers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetryOn {
    /// Those that pass by themselves: 5xx and timeouts.
    Transient,
    /// 5xx.
    ServerErrors,
    /// 4xx.
    ClientErrors,
    Timeouts,
}

impl RetryRule {
    /// The longest that all its waits can take together.
    pub fn waits_ms_max(&self) -> u64 {
        let wait = |tries: u32| if self.backoff { self.wait_ms << tries } else { self.wait_ms };
        // Plus a fifth: waits vary by that share.
        (0..self.max_attempts.saturating_sub(1)).map(|tries| wait(tries) * 6 / 5 + 1).sum()
    }
}
