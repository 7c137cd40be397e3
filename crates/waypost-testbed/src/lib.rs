//! For tests only: real servers on free ports, a proxy that breaks connections, a sink that counts,
//! a stub whose responses the test chooses, a bucket of S3 in memory, a language model.
//!
//! ```text
//!   test ──▶ Proxy ──▶ Postgres, Redis        private servers in folders of their own
//!     │ starts                                (postgres.rs, redis.rs)
//!     ▼
//!   Process ─────────▶ Sink                   a child with a log, and what it calls
//! ```
//!
//! Everything blocks, so that a plain `#[test]` can use it, and everything is gone when it is dropped:
//! also when the test panics, and (on Linux) when the test's process is killed.
//! A call panics where a server does not start or stop, or where what it waits for does not come in time.
//! Nothing here knows Waypost. A server that is not installed is a panic that names its package: a test
//! that is left out because a server is missing would be a test that cannot fail.

mod bucket;
mod certificate;
mod http;
mod model;
mod peers;
mod port;
pub mod postgres;
mod process;
mod proxy;
mod redis;
mod sink;
mod stub;

pub use bucket::Bucket;
pub use certificate::make_certificate;
pub use http::Received;
pub use model::{Charged, Model};
pub use peers::peers;
pub use port::free_port;
pub use process::{Process, moment, pause, wait_until};
pub use proxy::{Direction, Mode, Proxy};
pub use redis::{Redis, RedisReply};
pub use sink::Sink;
pub use stub::{PendingRequest, Stub};
