//! `waypost worker`, the real program, at servers that say what a test has them say.
//!
//! | file | shows |
//! | --- | --- |
//! | `rig` | the worker, and the servers that it talks to |
//! | `reporting` | which reports are kept, and which are given up |

mod reporting;
mod rig;
