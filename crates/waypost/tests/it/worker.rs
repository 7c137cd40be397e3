//! `waypost worker`, the real program, at servers that say what a test has them say.
//!
//! | file | shows |
//! | --- | --- |
//! | `rig` | the worker, and the servers that it talks to |
//! | `starting` | what begins, and what does not |
//! | `cancelling` | every cancellation arrives |
//! | `reporting` | which reports are kept, and which are given up |
//! | `again` | attempts that come once more |
//! | `leaving` | what becomes of reports when the worker is to stop |

mod again;
mod cancelling;
mod leaving;
mod reporting;
mod rig;
mod starting;
