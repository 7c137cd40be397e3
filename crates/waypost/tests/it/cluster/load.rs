//! A load on a cluster: clients that start executions one after the other until they are told to stop.
//! Whatever was acknowledged to them must be there, and end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use futures_util::stream::iter;
use parking_lot::Mutex;

use super::numbers::pace;
use super::rig::{Api, Cluster, LONG};

/// Clients at once.
const CLIENTS: usize = 6;
/// Ends that are awaited at once.
const AT_ONCE: usize = 16;

/// See the module.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    started: Arc<Mutex<Vec<String>>>,
    clients: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    /// Begins; `one` starts the n-th execution and gives its id.
    pub(super) fn begin<Starting>(cluster: &Cluster, one: fn(Api, usize) -> Starting) -> Self
    where
        Starting: Future<Output = String> + Send + 'static,
    {
        let (stop, started) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let next = Arc::new(AtomicUsize::new(0));
        let client = |_| {
            let (api, stop) = (cluster.api.clone(), Arc::clone(&stop));
            let (started, next) = (Arc::clone(&started), Arc::clone(&next));
            cluster.runtime.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let id = one(api.clone(), next.fetch_add(1, Ordering::Relaxed)).await;
                    started.lock().push(id);
                    pace().await;
                }
            })
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { stop, started, clients }
    }

    /// Waits until so many more were started.
    pub(super) fn more(&self, count: usize) {
        let enough = self.started.lock().len() + count;
        waypost_testbed::wait_until("more is started", LONG, || {
            self.started.lock().len() >= enough
        });
    }

    /// Stops, and sees that everything that was acknowledged is there, and completes.
    pub(super) fn end(self, cluster: &Cluster) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients {
            cluster.block_on(client).unwrap();
        }
        let ids = std::mem::take(&mut *self.started.lock());
        cluster.block_on(async {
            iter(&ids)
                .map(|id| async move {
                    let ended = cluster.api.ended(id, LONG).await;
                    assert_eq!(ended["status"], "COMPLETED", "{ended}");
                })
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<()>>()
                .await;
        });
        cluster.check();
    }
}
