//! The product's trigger tasks, on one thread and in virtual time: each call of the store, each start and each
//! read of a source leaves its task as a wish, which the simulation makes an event of.

use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::sync::oneshot;
use waypost_core::failure::{Failure, kind};
use waypost_core::id::InstanceId;
use waypost_core::time::Timestamp;
use waypost_engine::driver::Answer;
use waypost_engine::metrics::EngineMetrics;
use waypost_engine::triggers::Surroundings;
use waypost_engine::{EngineError, StartRequest, Started};
use waypost_ports::source::{
    PageRequest, PageSource, SourcePage, StreamFault, StreamPage, StreamReader, StreamRequest,
};

use crate::process::Life;
use crate::random::Random;

/// Numbers the tasks of a world.
pub(in crate::simulation) type TaskNo = u64;
/// A call of the store.
pub(in crate::simulation) type StoreCall = Box<dyn FnOnce() + Send>;
/// Who waits for the answer to a start.
pub(in crate::simulation) type StartAnswer = oneshot::Sender<Answer>;
/// Who waits for a page.
pub(in crate::simulation) type PageAnswer = oneshot::Sender<Result<SourcePage, Failure>>;

/// What a task needs of the world.
pub(super) enum Wish {
    Call(StoreCall),
    Start(Box<StartRequest>, StartAnswer),
    Announce(Vec<Option<InstanceId>>),
    Read(Box<PageRequest>, PageAnswer),
}

/// The tasks of all processes.
pub(super) struct VirtualTasks<T> {
    tasks: BTreeMap<TaskNo, (Life, BoxFuture<'static, T>)>,
    last: TaskNo,
    woken: Arc<Mutex<BTreeSet<TaskNo>>>,
}

/// How far a task got.
pub(super) enum TaskStep<T> {
    Ended(T),
    Waits,
}

struct TaskWaker {
    task: TaskNo,
    woken: Arc<Mutex<BTreeSet<TaskNo>>>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).insert(self.task);
    }
}

impl<T> Default for VirtualTasks<T> {
    fn default() -> Self {
        Self { tasks: BTreeMap::new(), last: 0, woken: Arc::default() }
    }
}

impl<T> VirtualTasks<T> {
    /// A task of a process, to be polled.
    pub(super) fn spawn(
        &mut self,
        life: Life,
        task: impl Future<Output = T> + Send + 'static,
    ) -> TaskNo {
        self.last += 1;
        self.tasks.insert(self.last, (life, Box::pin(task)));
        self.woken.lock().unwrap_or_else(PoisonError::into_inner).insert(self.last);
        self.last
    }

    /// The tasks that can go on, with their processes.
    pub(super) fn take_woken(&self) -> Vec<(TaskNo, Life)> {
        let woken = std::mem::take(&mut *self.woken.lock().unwrap_or_else(PoisonError::into_inner));
        let alive = |task| self.tasks.get(&task).map(|(life, _)| (task, *life));
        woken.into_iter().filter_map(alive).collect()
    }

    pub(super) fn poll(&mut self, task: TaskNo) -> Option<TaskStep<T>> {
        let (life, mut future) = self.tasks.remove(&task)?;
        let waker = Waker::from(Arc::new(TaskWaker { task, woken: Arc::clone(&self.woken) }));
        match Pin::new(&mut future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(end) => Some(TaskStep::Ended(end)),
            Poll::Pending => {
                self.tasks.insert(task, (life, future));
                Some(TaskStep::Waits)
            }
        }
    }

    /// A process has died, and its tasks with it.
    pub(super) fn drop_all_of(&mut self, life: Life) {
        self.tasks.retain(|_, (of, _)| *of != life);
    }
}

/// A process as its triggers see it.
pub(super) struct SimSurroundings {
    wishes: Mutex<Vec<Wish>>,
    now: Mutex<Timestamp>,
    random: Mutex<Random>,
    metrics: Arc<EngineMetrics>,
}

impl SimSurroundings {
    pub(super) fn new(random: Random) -> Self {
        Self {
            wishes: Mutex::default(),
            now: Mutex::default(),
            random: Mutex::new(random),
            metrics: Arc::default(),
        }
    }

    /// The process's estimate of the store's time, until it changes.
    pub(super) fn tell_time(&self, now: Timestamp) {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    pub(super) fn take_wishes(&self) -> Vec<Wish> {
        std::mem::take(&mut *self.wishes.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn wish(&self, wish: Wish) {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner).push(wish);
    }
}

impl Surroundings for SimSurroundings {
    fn now(&self) -> Timestamp {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn jitter(&self) -> u32 {
        let drawn = self.random.lock().unwrap_or_else(PoisonError::into_inner).below(1 << 32);
        u32::try_from(drawn).unwrap_or(0)
    }

    fn run(&self, call: StoreCall) {
        self.wish(Wish::Call(call));
    }

    fn start(&self, request: StartRequest) -> BoxFuture<'_, Result<Started, EngineError>> {
        let (tell, told) = oneshot::channel();
        self.wish(Wish::Start(Box::new(request), tell));
        async move { Started::of(told.await.ok()) }.boxed()
    }

    fn announce_mail(&self, owners: Vec<Option<InstanceId>>) {
        self.wish(Wish::Announce(owners));
    }

    fn metrics(&self) -> Arc<EngineMetrics> {
        Arc::clone(&self.metrics)
    }
}

/// The pages that a process reads.
pub(super) struct SimPages(pub(super) Arc<SimSurroundings>);

impl PageSource for SimPages {
    fn read(&self, request: PageRequest) -> BoxFuture<'static, Result<SourcePage, Failure>> {
        let (tell, told) = oneshot::channel();
        self.0.wish(Wish::Read(Box::new(request), tell));
        let lost = || Err(Failure::transient(kind::CONNECTION, "the connection was lost"));
        async move { told.await.unwrap_or_else(|_| lost()) }.boxed()
    }
}

/// No world has streams.
pub(super) struct NoStreams;

impl StreamReader for NoStreams {
    fn read(&self, _: StreamRequest) -> BoxFuture<'static, Result<StreamPage, StreamFault>> {
        let none = Failure::permanent(kind::INVALID_CONFIG, "there is no such source");
        std::future::ready(Err(none.into())).boxed()
    }

    fn mark(&self, _: StreamRequest) -> BoxFuture<'static, Result<(), StreamFault>> {
        std::future::ready(Ok(())).boxed()
    }
}
