//! Load at a constant rate: request n is due at start + n / rate, whatever became of the ones
//! before it. Those of a quarter of a millisecond are due together, at its end: to wake up for each
//! would cost more than to send it, and what the generator uses is not there for whom it measures.
//!
//! A latency counts from the moment the request was *due*, so a stall is charged to every request
//! that it delayed (a generator that waits for answers would charge it to one). Requests that find
//! no free connection wait for one, and that wait counts too. Each request is a reservation with a
//! buyer and an Idempotency-Key of its own, sent once, whatever the answer.
//!
//! Environment: `ADDRESS` (127.0.0.1:8080), `REQUEST_PATH`, `SKU` (hot), `RATE` (a second),
//! `SECONDS`, `WARMUP_SECONDS`, `CONNECTIONS` (256), `RUN` (a word that makes keys and buyers of
//! this run unique), `JOURNAL` (a file for what was answered 2xx or 5xx, or not at all: a line
//! each of the time in ms since 1970, the request's number, the status, the word of `Stockade-Outcome`
//! and the reservation's id; a `-` stands for what there was none of), `ALLOW_MISSING` (false).
//! Prints one line of JSON. Exit 1 if a request got no answer, unless that is allowed: then a
//! connection that is cut is made anew as soon as somebody listens.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use stockade_bench::{Answer, Histogram, setting};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;

/// How long requests are gathered.
const TICK: Duration = Duration::from_micros(250);
/// How long answers may be outstanding after the last request was due.
const GRACE: Duration = Duration::from_secs(10);
/// Between two tries to connect where nobody listens.
const RETRY: Duration = Duration::from_millis(10);

struct Due {
    number: u64,
    at: Instant,
    counts: bool,
}

#[derive(Default)]
struct Results {
    latency: Histogram,
    by_status: BTreeMap<u16, Histogram>,
    statuses: BTreeMap<u16, u64>,
    outcomes: BTreeMap<String, u64>,
    answered: u64,
    failed: u64,
    last_failure: Option<String>,
    journal: Option<BufWriter<File>>,
}

impl Results {
    fn answer(&mut self, due: &Due, answer: Answer) -> anyhow::Result<()> {
        let latency_us = due.at.elapsed().as_micros() as u64;
        let Answer { status, outcome, id } = answer;
        self.answered += 1;
        *self.statuses.entry(status).or_default() += 1;
        if due.counts {
            self.latency.record(latency_us);
            self.by_status.entry(status).or_default().record(latency_us);
        }
        // A refusal left nothing behind that anybody could look for.
        if !(400..500).contains(&status) {
            self.note(due, &status.to_string(), outcome.as_deref(), id.as_deref())?;
        }
        if let Some(outcome) = outcome {
            *self.outcomes.entry(outcome).or_default() += 1;
        }
        Ok(())
    }

    fn failure(&mut self, due: &Due, error: &anyhow::Error) -> anyhow::Result<()> {
        self.failed += 1;
        self.last_failure = Some(error.to_string());
        self.note(due, "-", None, None)
    }

    fn note(
        &mut self,
        due: &Due,
        status: &str,
        outcome: Option<&str>,
        id: Option<&str>,
    ) -> anyhow::Result<()> {
        if let Some(journal) = self.journal.as_mut() {
            let now_ms = SystemTime::UNIX_EPOCH.elapsed()?.as_millis();
            let (outcome, id) = (outcome.unwrap_or("-"), id.unwrap_or("-"));
            writeln!(journal, "{now_ms} {} {status} {outcome} {id}", due.number)?;
        }
        Ok(())
    }
}

fn quantiles(latency: &Histogram) -> Value {
    json!({
        "count": latency.len(),
        "p50_us": latency.quantile_us(0.5),
        "p90_us": latency.quantile_us(0.9),
        "p99_us": latency.quantile_us(0.99),
        "p999_us": latency.quantile_us(0.999),
        "max_us": latency.max_us(),
    })
}

#[derive(Clone)]
struct Plan {
    address: String,
    path: String,
    sku: String,
    run: String,
    rate: f64,
    seconds: f64,
    warmup_seconds: f64,
    connections: usize,
    journal: String,
    allow_missing: bool,
}

impl Plan {
    fn from_env() -> Self {
        Self {
            address: setting("ADDRESS", "127.0.0.1:8080".to_owned()),
            path: setting("REQUEST_PATH", "/v1/sales/bench/reservations".to_owned()),
            sku: setting("SKU", "hot".to_owned()),
            run: setting("RUN", "r".to_owned()),
            rate: setting("RATE", 1000.0),
            seconds: setting("SECONDS", 10.0),
            warmup_seconds: setting("WARMUP_SECONDS", 2.0),
            connections: setting("CONNECTIONS", 256),
            journal: setting("JOURNAL", String::new()),
            allow_missing: setting("ALLOW_MISSING", false),
        }
    }

    fn request(&self, number: u64) -> String {
        let Self { address, path, sku, run, .. } = self;
        let body = format!(r#"{{"buyer":"b-{run}-{number}","lines":[{{"sku":"{sku}","quantity":1}}]}}"#);
        format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Idempotency-Key: k-{run}-{number}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    }

    fn total(&self) -> u64 {
        (self.rate * (self.seconds + self.warmup_seconds)) as u64
    }
}

/// Hand out the requests when they are due. On a thread of its own, since the timers of tokio are a
/// millisecond wide.
fn tick(plan: &Plan, due: &UnboundedSender<Vec<Due>>) {
    let start = Instant::now();
    let (mut number, mut ticks) = (0, 0);
    while number < plan.total() {
        ticks += 1;
        let at = start + TICK * ticks;
        let mut together = Vec::new();
        while number < plan.total() && number as f64 / plan.rate < (TICK * ticks).as_secs_f64() {
            let counts = number as f64 / plan.rate >= plan.warmup_seconds;
            together.push(Due { number, at, counts });
            number += 1;
        }
        if together.is_empty() {
            continue;
        }
        if let Some(early) = at.checked_duration_since(Instant::now()) {
            std::thread::sleep(early);
        }
        if due.send(together).is_err() {
            return;
        }
    }
}

/// What is due and not under way yet.
#[derive(Default)]
struct Queue {
    due: RefCell<VecDeque<Due>>,
    is_over: Cell<bool>,
    idle: Notify,
}

impl Queue {
    async fn fill(&self, mut ticks: UnboundedReceiver<Vec<Due>>) {
        while let Some(together) = ticks.recv().await {
            for due in together {
                self.due.borrow_mut().push_back(due);
                self.idle.notify_one();
            }
        }
        self.is_over.set(true);
        self.idle.notify_waiters();
    }

    /// The next request, when it is due; nothing once all are under way.
    async fn next(&self) -> Option<Due> {
        loop {
            let due = self.due.borrow_mut().pop_front();
            if due.is_some() || self.is_over.get() {
                return due;
            }
            self.idle.notified().await;
        }
    }
}

/// Send one request, read one answer.
async fn exchange(stream: &mut TcpStream, request: &[u8], buffer: &mut Vec<u8>) -> anyhow::Result<Answer> {
    stream.write_all(request).await?;
    buffer.clear();
    loop {
        if stream.read_buf(buffer).await? == 0 {
            bail!("connection closed before the answer was complete");
        }
        if let Some(answer) = Answer::parse(buffer)? {
            return Ok(answer);
        }
    }
}

async fn connect(plan: &Plan) -> anyhow::Result<TcpStream> {
    let stream = TcpStream::connect(&plan.address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Connect once more, after a connection was cut.
async fn reconnect(plan: &Plan) -> anyhow::Result<TcpStream> {
    loop {
        match connect(plan).await {
            Err(_) if plan.allow_missing => tokio::time::sleep(RETRY).await,
            connected => return connected,
        }
    }
}

async fn connection(
    plan: Rc<Plan>,
    mut stream: TcpStream,
    queue: Rc<Queue>,
    results: Rc<RefCell<Results>>,
) -> anyhow::Result<()> {
    let mut buffer = Vec::with_capacity(4096);
    while let Some(due) = queue.next().await {
        let request = plan.request(due.number);
        match exchange(&mut stream, request.as_bytes(), &mut buffer).await {
            Ok(answer) => results.borrow_mut().answer(&due, answer)?,
            Err(error) => {
                results.borrow_mut().failure(&due, &error)?;
                stream = reconnect(&plan).await?;
            }
        }
    }
    Ok(())
}

async fn run(plan: Rc<Plan>) -> anyhow::Result<Rc<RefCell<Results>>> {
    let (sender, receiver) = unbounded_channel();
    let queue = Rc::new(Queue::default());
    let journal = match plan.journal.as_str() {
        "" => None,
        path => Some(BufWriter::new(File::create(path).with_context(|| path.to_owned())?)),
    };
    let results = Rc::new(RefCell::new(Results { journal, ..Results::default() }));
    let mut connections = Vec::new();
    for _ in 0..plan.connections {
        // Before the first request is due, so that it waits for none of them.
        let task = connection(plan.clone(), connect(&plan).await?, queue.clone(), results.clone());
        connections.push(tokio::task::spawn_local(task));
    }
    tokio::task::spawn_local({
        let queue = queue.clone();
        async move { queue.fill(receiver).await }
    });
    let ticking = Plan::clone(&plan);
    let ticker = std::thread::spawn(move || tick(&ticking, &sender));
    let deadline = Duration::from_secs_f64(plan.seconds + plan.warmup_seconds) + GRACE;
    let all = async {
        for task in connections {
            task.await??;
        }
        anyhow::Ok(())
    };
    // Late answers are counted as missing by the caller: it compares with what was due.
    if let Ok(ended) = tokio::time::timeout(deadline, all).await {
        ended?;
        ticker.join().map_err(|_| anyhow::anyhow!("the ticker panicked"))?;
    }
    Ok(results)
}

fn main() -> anyhow::Result<()> {
    let plan = Rc::new(Plan::from_env());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let results = LocalSet::new().block_on(&runtime, run(plan.clone()))?;
    let mut results = results.borrow_mut();
    if let Some(journal) = results.journal.as_mut() {
        journal.flush()?;
    }
    let latency = &results.latency;
    let missing = plan.total() - results.answered;
    let by_status: BTreeMap<_, _> =
        results.by_status.iter().map(|(status, of)| (status, quantiles(of))).collect();
    let line = json!({
        "rate": plan.rate,
        "due": plan.total(),
        "answered": results.answered,
        "missing": missing,
        "failed": results.failed,
        "failure": results.last_failure,
        "statuses": results.statuses,
        "outcomes": results.outcomes,
        "counted": latency.len(),
        "p50_us": latency.quantile_us(0.5),
        "p90_us": latency.quantile_us(0.9),
        "p99_us": latency.quantile_us(0.99),
        "p999_us": latency.quantile_us(0.999),
        "max_us": latency.max_us(),
        "by_status": by_status,
    });
    println!("{line}");
    if missing > 0 && !plan.allow_missing {
        bail!("{missing} requests got no answer");
    }
    Ok(())
}
