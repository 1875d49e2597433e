//! Eight ways to sell one hot SKU to a crowd, side by side, on Redis servers of their own. Three of them sell what is not
//! there. `docs/strategies.md` says why.
//!
//! ```text
//! cargo run --release --example strategies -- --only a,g --svg chart.svg
//! ```
//!
//! Exit 0: a, b and c oversold, and the others sold each unit once. 1: they did not, or something failed.

mod buy;
mod processes;
mod redlock;
mod report;
mod shop;
mod till;

use anyhow::{Context, Result, ensure};
use buy::Strategy;
use clap::{Parser, ValueEnum};
use report::Row;
use shop::{Servers, Shop};
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use till::{Crowd, Tally};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Clone, Parser)]
struct Options {
    /// Buyers who come; more than there are units.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(2..=1_000_000))]
    buyers: u32,
    /// Units there are.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    stock: u32,
    /// Buyers who are served at the same time, each on a connection of its own.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    tasks: u32,
    /// The work of one buyer in so many is slow; at most `--stock`.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    slow_every: u32,
    /// How long work takes, and pauses between tries, follow from it.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Only these, such as `a,c`.
    #[arg(long, value_delimiter = ',')]
    only: Vec<Strategy>,
    /// Where to write the chart.
    #[arg(long)]
    svg: Option<PathBuf>,
    /// Makes this one of the processes of b: the folder of the server.
    #[arg(long, hide = true)]
    join: Option<PathBuf>,
    /// Which of them.
    #[arg(long, hide = true, default_value_t = 0)]
    part: u32,
}

impl Options {
    fn check(&self) -> Result<()> {
        ensure!(self.buyers > self.stock, "--buyers must be larger than --stock: nobody could be oversold");
        ensure!(
            self.slow_every <= self.stock,
            "--slow-every must not be larger than --stock: nobody might be slow"
        );
        Ok(())
    }

    fn crowd(&self) -> Crowd {
        Crowd { first: 0, step: 1, end: self.buyers, seed: self.seed, slow_every: self.slow_every }
    }

    /// As arguments, for another process.
    fn again(&self) -> [String; 5] {
        let Self { buyers, stock, tasks, slow_every, seed, .. } = self;
        [
            format!("--buyers={buyers}"),
            format!("--stock={stock}"),
            format!("--tasks={tasks}"),
            format!("--slow-every={slow_every}"),
            format!("--seed={seed}"),
        ]
    }

    fn strategies(&self) -> Vec<Strategy> {
        let all = Strategy::value_variants().iter().copied();
        all.filter(|strategy| self.only.is_empty() || self.only.contains(strategy)).collect()
    }

    fn about(&self) -> String {
        let Self { buyers, stock, tasks, seed, .. } = self;
        format!("{buyers} buyers, {stock} units, {tasks} at the same time, every write durable. Seed {seed}.")
    }
}

async fn run(options: &Options, servers: &Servers, strategy: Strategy) -> Result<Row> {
    let shop = Shop::new(strategy, &servers.urls(), options.seed)?;
    shop.fill(options.stock).await?;
    let tally: Tally = if strategy == Strategy::B {
        let (options, folder) = (options.clone(), servers.folder());
        tokio::task::spawn_blocking(move || processes::run(&options, &folder)).await??
    } else {
        till::serve(strategy, shop.tills(options.tasks).await?, options.crowd()).await?
    };
    Ok(Row::new(strategy, options.stock, shop.counted(options.stock).await?, tally))
}

/// Whether all rows are as they must be.
async fn compare(options: &Options, servers: &Servers) -> Result<bool> {
    // A reader that has gone is no reason to panic: the servers would run on.
    let mut out = std::io::stdout();
    writeln!(out, "{}\n\n{}", options.about(), report::HEAD)?;
    let mut rows = Vec::new();
    for strategy in options.strategies() {
        let row = run(options, servers, strategy).await.with_context(|| strategy.title())?;
        writeln!(out, "{row}")?;
        rows.push(row);
    }
    writeln!(out, "\n{}\n", report::LEGEND)?;
    if let Some(path) = &options.svg {
        std::fs::write(path, report::chart(&rows, &options.about()))
            .with_context(|| format!("--svg {}", path.display()))?;
        writeln!(out, "The chart is in {}.", path.display())?;
    }
    let wrong: Vec<&Row> = rows.iter().filter(|row| !row.is_as_said(options.stock)).collect();
    for row in &wrong {
        let should = if row.strategy.oversells() { "oversold" } else { "sold each unit once" };
        writeln!(out, "NOT AS SAID: {} should have {should}.", row.strategy.title())?;
    }
    if wrong.is_empty() {
        writeln!(out, "As said: a, b and c oversell, the others sell each unit once.")?;
    }
    Ok(wrong.is_empty())
}

/// Whether it went as it must.
async fn go() -> Result<bool> {
    let options = Options::parse();
    options.check()?;
    if let Some(folder) = &options.join {
        return processes::join(&options, folder).await.map(|()| true);
    }
    // From here on we end in order: the servers would run on without us.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut servers = Servers::new()?;
    let started = servers.start().await;
    let compared = async {
        started?;
        compare(&options, &servers).await
    };
    let compared = tokio::select! {
        compared = compared => compared,
        _ = interrupt.recv() => Ok(false),
        _ = terminate.recv() => Ok(false),
    };
    servers.stop().await?;
    compared
}

#[tokio::main]
async fn main() -> ExitCode {
    match go().await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("strategies: {error:#}");
            ExitCode::FAILURE
        }
    }
}
