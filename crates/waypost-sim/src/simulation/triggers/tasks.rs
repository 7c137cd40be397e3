//! Tasks go on, and the simulation grants what they wish: calls that take time and may fail, starts through the
//! process's drivers, reads of sources.

use std::sync::Arc;

use waypost_engine::StartRequest;
use waypost_engine::driver::{Input, Start};
use waypost_ports::source::PageRequest;
use waypost_ports::store::LEASE;

use super::flows::FlowKind;
use super::virtual_tasks::{PageAnswer, TaskNo, TaskStep, Wish};
use super::{TriggerEvent, TriggerWorld};
use crate::fault::Fault;
use crate::process::Life;
use crate::simulation::{Simulation, WorldEvent};

impl Simulation {
    pub(super) fn poll_trigger_task(&mut self, life: Life, task: TaskNo) {
        let Some(process) = self.processes.get_mut(&life) else { return };
        if let Some(later) = &mut process.suspended {
            return later.push(WorldEvent::Triggers(TriggerEvent::Poll(life, task)));
        }
        let now = process.now().least;
        let Some(instance) = self.triggers.instances.get(&life) else { return };
        let surroundings = Arc::clone(&instance.surroundings);
        surroundings.tell_time(now);
        let polled = self.triggers.tasks.poll(task);
        for wish in surroundings.take_wishes() {
            self.grant(life, task, wish);
        }
        if let Some(TaskStep::Ended(end)) = polled {
            self.trigger_task_ended(life, end);
        }
    }

    fn grant(&mut self, life: Life, task: TaskNo, wish: Wish) {
        match wish {
            Wish::Call(call) => {
                let latency = self.trigger_latency();
                let call = TriggerEvent::Call(life, task, call);
                self.after(latency, WorldEvent::Triggers(call));
            }
            Wish::Read(request, answer) => {
                let latency = self.trigger_latency();
                let read = TriggerEvent::Read(life, request, answer);
                self.after(latency, WorldEvent::Triggers(read));
            }
            Wish::Start(request, answer) => {
                self.tempt_to_change(&request);
                let ticket = self.people.ask_start(life, answer);
                let start = Start { request: *request, ticket, await_end: None };
                self.inputs(life, vec![Input::Start(start)]);
            }
            Wish::Announce(owners) => owners.into_iter().flatten().for_each(|owner| {
                self.nudge(owner);
            }),
        }
    }

    /// A fire is on its way: a bad moment to change its trigger. People may choose it.
    fn tempt_to_change(&mut self, request: &StartRequest) {
        let Some(fire) = &request.fire else { return };
        if !self.faults_over && self.triggers.random.percent(15) {
            let soon = self.triggers.random.below(20);
            let tempted = TriggerEvent::Tempted(fire.1.at.trigger);
            self.after(soon, WorldEvent::Triggers(tempted));
        }
    }

    fn trigger_latency(&mut self) -> u64 {
        let random = &mut self.triggers.random;
        match self.store.inner().weather.strikes_apart(Fault::Slow, random) {
            true => random.between(50, 2 * LEASE.0),
            false => random.below(8),
        }
    }

    /// Tasks that can go on do so soon.
    pub(in crate::simulation) fn wake_trigger_tasks(&mut self) {
        for (task, life) in self.triggers.tasks.take_woken() {
            let soon = self.triggers.random.below(3);
            self.after(soon, WorldEvent::Triggers(TriggerEvent::Poll(life, task)));
        }
    }

    pub(super) fn read_source(&mut self, life: Life, request: &PageRequest, answer: PageAnswer) {
        let now_ms = self.ms();
        let TriggerWorld { random, flows, watch, .. } = &mut self.triggers;
        let flow = flows.iter().find(|flow| flow.name == request.workflow);
        let Some(FlowKind::Poll(source)) = flow.map(|flow| &flow.kind) else { return };
        let page = source.read(request, now_ms, &mut self.store.inner().weather, random);
        watch.reads(life, &request.workflow, page.as_ref().ok());
        drop(answer.send(page));
    }
}
