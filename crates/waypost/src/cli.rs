//! The command line: one file per command in `cli/`, all of them thin. They read executions through
//! the `target`, from a server or from the folder, and print through `output`.

mod bench;
mod blob;
mod breakers;
mod budget;
mod check;
mod children;
mod config;
mod definitions;
mod deploy;
mod eval;
mod events;
mod failed;
mod find;
mod import;
mod init;
mod input;
mod interrupts;
mod items;
mod keys;
mod list;
mod logging;
mod migrate;
mod projections;
mod publish;
mod requests;
mod resume;
mod retry;
mod run;
mod serve;
mod show;
mod start;
mod system;
mod triggers;
mod validate;
mod waits;
mod watch;
mod webhooks;
mod when;
mod why;
mod worker;

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Result;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use serde::Serialize;

use crate::client::Refused;
use crate::output::{self, Color, Format, complain, print_json, print_line};
use crate::settings::{Flags, Settings};

/// Runs workflows that survive crashes, restarts and long waits.
#[derive(Parser, Debug)]
#[command(name = "waypost", version, propagate_version = true, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    flags: Flags,
    /// How to print results
    #[arg(long, short, global = true, value_enum, default_value_t = Format::Text)]
    output: Format,
    /// When to use colours
    #[arg(long, global = true, value_enum, default_value_t = Color::Auto)]
    color: Color,
    /// What to log to standard error, for example `info` or `waypost_engine=debug`
    #[arg(long, global = true, value_name = "FILTER", env = "WAYPOST_LOG", default_value = "warn")]
    log: String,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Run a workflow and show its progress
    Run(run::Args),
    /// Resume stopped, paused or interrupted executions
    Resume(resume::Args),
    /// Serve the HTTP API and drive every execution in the folder
    Serve(serve::Args),
    /// Run a worker: pull tasks from a server or cluster and execute them here
    Worker(worker::Args),
    /// Write an example workflow and the schema for editors
    Init(init::Args),
    /// Check definitions without running them
    Validate(validate::Args),
    /// Convert a definition of another engine
    Import(import::Args),
    /// Evaluate an expression with an input, or with the data of an execution
    Eval(eval::Args),
    /// Deploy workflow definitions
    Deploy(deploy::Args),
    /// List workflows, the versions of one, or print a version
    #[command(disable_version_flag = true)]
    Definitions(definitions::Args),
    /// Start a deployed workflow on the server
    #[command(disable_version_flag = true)]
    Start(start::Args),
    /// Watch an execution until it ends
    Watch(find::Named),
    /// List executions, newest first
    List(list::Args),
    /// Show one execution: its nodes, their timeline, its output
    Show(find::Named),
    /// List the items of a map, or the iterations of a loop
    Items(items::Args),
    /// Show the executions that an execution started, as a tree
    Children(children::Args),
    /// List open waits of all executions
    Waits(waits::Args),
    /// Show the log of one execution, or publish events to triggers
    Events(events::Args),
    /// Pause an execution: running attempts finish, nothing new starts
    Pause(requests::PauseArgs),
    /// Cancel an execution, or one item of a map
    Cancel(requests::CancelArgs),
    /// Hold or release a map that is running, or change how many of its items may be open
    Tune(requests::TuneArgs),
    /// Change what an execution may spend on tokens
    Budget(budget::Args),
    /// Retry an execution: run its failed nodes again, and those after them
    Retry(retry::Args),
    /// Send a signal to an execution
    Signal(requests::SignalArgs),
    /// Publish a signal by its key, to every execution that waits for it
    Publish(publish::Args),
    /// Complete a wait early: skip a delay, retry now, or supply a signal
    CompleteWait(requests::CompleteWaitArgs),
    /// Approve what an execution asks for
    Approve(requests::DecideArgs),
    /// Reject what an execution asks for
    Reject(requests::DecideArgs),
    /// Make links by which people decide an approval without an API key
    ApprovalLinks(waits::links::Args),
    /// Explain what an execution is waiting for and how to unblock it
    Why(find::Named),
    /// Verify every invariant of the logs and of the rows derived from them
    Check(check::Args),
    /// Store and read blobs: payloads by the digest of their content
    #[command(subcommand)]
    Blob(blob::Action),
    /// List the processes that drive executions
    Instances,
    /// List workers and the tasks that wait for them
    Workers,
    /// List every limit
    Limits,
    /// Manage the API keys of a server
    #[command(subcommand)]
    Keys(keys::Action),
    /// Show the audit log, newest first
    Audit(keys::AuditArgs),
    /// List and reset circuit breakers
    #[command(subcommand)]
    Breakers(breakers::Action),
    /// List, fire and change triggers, which start executions
    #[command(subcommand)]
    Triggers(triggers::Action),
    /// Manage webhook endpoints, which get messages about executions
    #[command(subcommand)]
    Webhooks(webhooks::Action),
    /// List messages that were given up, newest first
    DeadLetters(webhooks::PageArgs),
    /// Measure the engine on this machine
    Bench {
        #[command(subcommand)]
        scenario: waypost_bench::Scenario,
    },
    /// Manage projections, the tables behind `list`
    #[command(subcommand)]
    Projections(projections::Action),
    /// Print every setting, its value and where it comes from
    Config,
    /// Bring the data folder's layout up to date (other commands do so by themselves)
    Migrate(migrate::Args),
    /// Print the JSON Schema of definitions, for editors
    Schema,
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    #[command(hide = true)]
    BenchRecoverChild { executions: u64, folder: std::path::PathBuf },
}

/// The context of commands besides their own arguments.
pub(crate) struct Context {
    settings: Settings,
    format: Format,
    /// Is standard output in colour; is standard error?
    color: bool,
    color_errors: bool,
}

impl Context {
    /// Prints a result: as JSON, or as `text` prints it.
    fn show(&self, result: &impl Serialize, text: impl FnOnce()) -> Result<Exit> {
        match self.format {
            Format::Json => print_json(result)?,
            Format::Text => text(),
        }
        Ok(Exit::Done)
    }
}

/// How a command ended: the process's exit code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Exit {
    /// An execution completed, or the command did its work.
    Done = 0,
    /// An execution failed, or the command did.
    Failed = 1,
    /// A definition, an input or the usage is wrong.
    Wrong = 2,
    /// The execution can be resumed.
    Interrupted = 130,
}

impl Exit {
    fn code(self) -> u8 {
        self as u8
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The arguments cannot be used: a missing file, an unknown name. Exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The command line. Options that all commands take are listed once, in the help of the program:
/// repeated in that of each command they would bury its own.
fn command() -> clap::Command {
    let mut command = Cli::command();
    // Passes them on to the subcommands, where they can be hidden.
    command.build();
    let global: Vec<_> = command.get_arguments().filter(|option| option.is_global_set()).collect();
    let global: Vec<_> = global.into_iter().map(|option| option.get_id().clone()).collect();
    command.mut_subcommands(|subcommand| without_global(subcommand, &global))
}

fn without_global(command: clap::Command, global: &[clap::Id]) -> clap::Command {
    let command = command.mut_args(|option| match global.contains(option.get_id()) {
        true => option.hide(true),
        false => option,
    });
    let examples = command.get_after_help().map(|examples| format!("{examples}\n\n"));
    let note = format!("{}{GLOBAL_OPTIONS}", examples.unwrap_or_default());
    command.after_help(note).mut_subcommands(|subcommand| without_global(subcommand, global))
}

/// The line about global options in the help of a command.
const GLOBAL_OPTIONS: &str = "Global options: see `waypost --help`";

/// Parses the command line and runs the command.
pub fn main() -> ExitCode {
    logging::log_panics();
    let parsed = command().try_get_matches();
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(help) => return print_help(&help),
    };
    let color = cli.color.is_wanted(std::io::stdout().is_terminal());
    let color_errors = cli.color.is_wanted(std::io::stderr().is_terminal());
    if let Err(error) = logging::start(&cli.log, color_errors) {
        return fail(&error);
    }
    match block_on(execute(cli, color, color_errors)) {
        Ok(exit) => printed(exit).into(),
        Err(error) => fail(&error),
    }
}

/// Prints the requested help, or the error about the arguments.
fn print_help(help: &clap::Error) -> ExitCode {
    let code = u8::try_from(help.exit_code()).unwrap_or(Exit::Wrong.code());
    match help.print() {
        Err(error) if !help.use_stderr() && !output::is_reader_gone(&error) => {
            fail(&anyhow::Error::new(error).context("cannot write to standard output"))
        }
        _ => ExitCode::from(code),
    }
}

/// A command that did its work and could not print all of its results has not succeeded, unless
/// the reader did not want more of them.
fn printed(exit: Exit) -> Exit {
    match output::failure().filter(|error| !output::is_reader_gone(error)) {
        Some(error) => {
            complain(&format!("error: cannot write to standard output: {error}"));
            if exit == Exit::Done { Exit::Failed } else { exit }
        }
        None => exit,
    }
}

fn fail(error: &anyhow::Error) -> ExitCode {
    complain(&format!("error: {error:#}"));
    let refused = error.downcast_ref::<Refused>().is_some_and(Refused::is_wrong);
    let wrong = refused || error.downcast_ref::<Usage>().is_some();
    if wrong { Exit::Wrong.into() } else { Exit::Failed.into() }
}

async fn execute(cli: Cli, color: bool, color_errors: bool) -> Result<Exit> {
    let flags = match &cli.command {
        Command::Serve(args) => cli.flags.with_server(&args.flags),
        _ => cli.flags,
    };
    let settings = Settings::load(&flags)?;
    let context = Context { settings, format: cli.output, color, color_errors };
    match cli.command {
        Command::Init(args) => init::run(&args, &context),
        Command::Validate(args) => validate::run(&args, &context),
        Command::Import(args) => import::run(&args, &context),
        Command::Check(args) => check::run(&args, &context),
        Command::Projections(action) => projections::run(&action, &context),
        Command::Config => config::run(&context),
        Command::Migrate(args) => migrate::run(&args, &context),
        Command::Schema => validate::schema(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "waypost", &mut script);
            print_line(String::from_utf8_lossy(&script).trim_end());
            Ok(Exit::Done)
        }
        Command::Run(args) => run::run(&args, &context).await,
        Command::Resume(args) => resume::run(&args, &context).await,
        Command::Serve(_) => serve::run(&context).await,
        Command::Eval(args) => eval::run(&args, &context).await,
        Command::Deploy(args) => deploy::run(&args, &context).await,
        Command::Definitions(args) => definitions::run(&args, &context).await,
        Command::Start(args) => start::run(&args, &context).await,
        Command::Watch(args) => watch::run(&args, &context).await,
        Command::List(args) => list::run(&args, &context).await,
        Command::Show(args) => show::run(&args, &context).await,
        Command::Items(args) => items::run(&args, &context).await,
        Command::Children(args) => children::run(&args, &context).await,
        Command::Waits(args) => waits::run(&args, &context).await,
        Command::Events(args) => events::run(&args, &context).await,
        Command::Why(args) => why::run(&args, &context).await,
        Command::Pause(args) => requests::pause(args, &context).await,
        Command::Cancel(args) => requests::cancel(args, &context).await,
        Command::Retry(args) => retry::run(args, &context).await,
        Command::Signal(args) => requests::signal(args, &context).await,
        Command::Publish(args) => publish::run(args, &context).await,
        Command::Budget(args) => budget::run(args, &context).await,
        Command::Tune(args) => requests::tune(args, &context).await,
        Command::CompleteWait(args) => requests::complete_wait(args, &context).await,
        Command::Approve(args) => requests::approve(args, &context).await,
        Command::Reject(args) => requests::reject(args, &context).await,
        Command::ApprovalLinks(args) => waits::links::run(&args, &context).await,
        Command::Blob(action) => blob::run(action, &context).await,
        Command::Instances => system::instances(&context).await,
        Command::Worker(args) => worker::run(&args, &context).await,
        Command::Workers => worker::list(&context).await,
        Command::Limits => system::limits(&context).await,
        Command::Keys(action) => keys::run(&action, &context).await,
        Command::Audit(args) => keys::audit(&args, &context).await,
        Command::Breakers(action) => breakers::run(&action, &context).await,
        Command::Triggers(action) => triggers::run(&action, &context).await,
        Command::Webhooks(action) => webhooks::run(&action, &context).await,
        Command::DeadLetters(page) => webhooks::dead_letters(&page, &context).await,
        Command::Bench { scenario } => bench::run(&scenario, &context).await,
        Command::BenchRecoverChild { executions, folder } => {
            bench::recover_child(executions, folder, &context).await
        }
    }
}

/// How long blocking work may run after a command has ended.
const LEFTOVERS_MAX: std::time::Duration = std::time::Duration::from_millis(500);

fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(future);
    // Work that blocks cannot be cancelled, and is not waited for: whatever matters is durable.
    runtime.shutdown_timeout(LEFTOVERS_MAX);
    result
}
