//! Tests of the core, from outside.
//!
//! | file | owns |
//! | --- | --- |
//! | `run` | one execution, driven by hand; checks replay and snapshots at every step |
//! | `script` | the language of the tables: `command -> what must be so` |
//! | `rules`, `attempts`, `bodies`, `breakers`, `budgets`, `steering`, `waits`, `pausing`, `ending`, `recovery`, `repair`, `delivery`, `remote`, `queue`, `entries` | the tables |
//! | `arrows` | both state machines, every pair, legal and refused |
//! | `items` | the items of maps, listed |
//! | `laws` | laws over random plans and random commands |
//! | `check` | the checker: a good log, one damage, one finding |
//! | `programs`, `programs_end` | random expressions; each ends within its budget |
//! | `permits` | the rule of the queue of a concurrency key |
//! | `schedules`, `schedule_due` | schedules: tables of clock changes, bad input and downtime |
//! | `schedule_laws` | random schedules against a walk over all minutes |
//! | `triggers` | from a fire to the execution that it starts |
//! | `plan`, `scale` | what `Plan::build` works out; ten thousand nodes |

mod approvals;
mod arrows;
mod attempts;
mod bodies;
mod breakers;
mod budgets;
mod callbacks;
mod check;
mod children;
mod delivery;
mod early;
mod ending;
mod entries;
mod event_waits;
mod items;
mod laws;
mod pausing;
mod permits;
mod plan;
mod programs;
mod programs_end;
mod queue;
mod recovery;
mod remote;
mod repair;
mod rules;
mod run;
mod scale;
mod schedule_due;
mod schedule_laws;
mod schedules;
mod script;
mod signals_by_key;
mod steering;
mod triggers;
mod waits;
