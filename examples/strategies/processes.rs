//! Two processes of one shop, as behind a load balancer: this program starts itself twice, and opens the doors of both
//! at the same time.

use crate::Options;
use crate::buy::Strategy;
use crate::shop::{Shop, engine};
use crate::till::{Crowd, Tally, serve};
use anyhow::{Context, Result, ensure};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const PROCESSES: u32 = 2;
const READY: &str = "ready";

/// The parent's side. It waits for lines of its children, so it is for a thread that may block.
pub fn run(options: &Options, folder: &Path) -> Result<Tally> {
    let mut children =
        (0..PROCESSES).map(|part| Half::start(options, folder, part)).collect::<Result<Vec<_>>>()?;
    children.iter_mut().try_for_each(Half::wait_until_ready)?;
    children.iter_mut().try_for_each(Half::open)?;
    let mut tally = Tally::default();
    for child in children {
        tally.add(child.tally()?);
    }
    Ok(tally)
}

/// One child, which ends with us.
struct Half {
    process: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Half {
    fn start(options: &Options, folder: &Path, part: u32) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(options.again()).arg("--join").arg(folder).args(["--part", &part.to_string()]);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let said = BufReader::new(process.stdout.take().context("the output of a child")?);
        Ok(Self { process, said })
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.said.read_line(&mut line)?;
        Ok(line)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        ensure!(self.line()?.trim_end() == READY, "a process of b does not start");
        Ok(())
    }

    fn open(&mut self) -> Result<()> {
        let input = self.process.stdin.as_mut().context("the input of a child")?;
        Ok(input.write_all(b"open\n")?)
    }

    fn tally(mut self) -> Result<Tally> {
        serde_json::from_str(&self.line()?).context("a process of b does not say what it sold")
    }
}

impl Drop for Half {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The child's side: its share of the tasks and of the buyers.
pub async fn join(options: &Options, folder: &Path) -> Result<()> {
    let engine = engine(folder).await?;
    let shop = Shop::new(Strategy::B, &[engine.url()], options.seed)?;
    let tills = shop.tills(options.tasks.div_ceil(PROCESSES)).await?;
    println!("{READY}");
    let opened = std::io::stdin().read_line(&mut String::new())?;
    ensure!(opened > 0, "the parent has gone");
    let crowd = Crowd { first: options.part, step: PROCESSES, ..options.crowd() };
    let tally = serve(Strategy::B, tills, crowd).await?;
    println!("{}", serde_json::to_string(&tally)?);
    Ok(())
}
