//! A receiver of webhooks that remembers every message, and misbehaves as it is told.

use crate::service::own_address;
use serde_json::Value;
use standardwebhooks::Webhook;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Long enough for a loaded machine; a test that waits this long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// What becomes of a request, once all of it is here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// An answer with this status.
    Answer(u16),
    /// The same, with `Retry-After`: seconds or a date.
    Later(u16, &'static str),
    /// The same, with `Location`.
    Redirect(u16, &'static str),
    /// The connection ends without an answer.
    Cut,
    /// No answer before [`Receiver::release`]; 200 then.
    Hang,
}

/// One request, as it came.
#[derive(Debug, Clone)]
pub struct Received {
    pub method: String,
    pub path: String,
    /// By names in lower case.
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Received {
    /// Of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// What repeats are dropped by.
    pub fn id(&self) -> &str {
        self.header("webhook-id")
    }

    /// Seconds; what the signature says of when it was sent.
    pub fn timestamp(&self) -> i64 {
        self.header("webhook-timestamp").parse().expect("webhook-timestamp")
    }

    /// The event.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).expect("a body of JSON")
    }

    /// Whether one of its signatures was made with this secret. Its age is not looked at: tests move the clock.
    pub fn is_signed_with(&self, secret: &str) -> bool {
        let ours = Webhook::new(secret).and_then(|key| key.sign(self.id(), self.timestamp(), &self.body));
        let ours = ours.expect("a secret and a text");
        self.header("webhook-signature").split(' ').any(|theirs| theirs == ours)
    }
}

/// How requests are answered.
struct Manners {
    /// Of the next requests, one each.
    next: VecDeque<Behaviour>,
    /// Of all after these.
    usual: Behaviour,
}

struct Memory {
    manners: Mutex<Manners>,
    /// In the order of their arrival.
    received: watch::Sender<Vec<Received>>,
    /// Counts the releases.
    releases: watch::Sender<u64>,
}

/// Listens on an address of its own, in the runtime of the test; all it does ends with it.
pub struct Receiver {
    address: SocketAddr,
    memory: Arc<Memory>,
    listening: Option<Listening>,
}

struct Listening {
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Receiver {
    /// One that answers 200 to everything.
    pub async fn start() -> Self {
        let manners = Mutex::new(Manners { next: VecDeque::new(), usual: Behaviour::Answer(200) });
        let (received, releases) = (watch::Sender::new(Vec::new()), watch::Sender::new(0));
        let memory = Arc::new(Memory { manners, received, releases });
        let mut receiver = Self { address: own_address(), memory, listening: None };
        receiver.accept_again().await;
        receiver
    }

    /// Where to send messages.
    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    /// From now on, also instead of what was left of [`Receiver::next`].
    pub fn always(&self, behaviour: Behaviour) {
        *self.memory.manners.lock().unwrap() = Manners { next: VecDeque::new(), usual: behaviour };
    }

    /// For so many requests, after those that were told before.
    pub fn next(&self, requests: usize, behaviour: Behaviour) {
        self.memory.manners.lock().unwrap().next.extend(std::iter::repeat_n(behaviour, requests));
    }

    /// Answers all that hang.
    pub fn release(&self) {
        self.memory.releases.send_modify(|releases| *releases += 1);
    }

    /// Closes its port and every connection.
    pub async fn refuse(&mut self) {
        let Listening { stop, task } = self.listening.take().expect("it listens");
        stop.send(()).expect("it listens");
        task.await.expect("it did not panic");
    }

    /// Opens the same port again.
    pub async fn accept_again(&mut self) {
        assert!(self.listening.is_none(), "it listens");
        let listener = TcpListener::bind(self.address).await.expect("its port is free");
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(accept(listener, Arc::clone(&self.memory), stopped));
        self.listening = Some(Listening { stop, task });
    }

    /// All requests so far, also those that were not answered well.
    pub fn received(&self) -> Vec<Received> {
        self.memory.received.borrow().clone()
    }

    /// What is left when repeats are dropped: ids in the order of their first arrival.
    pub fn distinct_ids(&self) -> Vec<String> {
        distinct(&self.memory.received.borrow()).into_iter().map(|first| first.id().to_owned()).collect()
    }

    /// All requests, once there are so many.
    pub async fn wait_for(&self, requests: usize) -> Vec<Received> {
        self.wait_until(&format!("{requests} requests"), |received| received.len() >= requests).await
    }

    /// The first request of each id, once there are so many ids.
    pub async fn wait_for_distinct(&self, ids: usize) -> Vec<Received> {
        let received =
            self.wait_until(&format!("{ids} ids"), |received| distinct(received).len() >= ids).await;
        distinct(&received).into_iter().cloned().collect()
    }

    /// All requests, once they are as wanted; fails the test, saying `what`, if that does not come true.
    pub async fn wait_until(&self, what: &str, is_so: impl Fn(&[Received]) -> bool) -> Vec<Received> {
        self.wait_within(PATIENCE, what, is_so).await
    }

    /// The same, with another patience.
    pub async fn wait_within(
        &self,
        patience: Duration,
        what: &str,
        is_so: impl Fn(&[Received]) -> bool,
    ) -> Vec<Received> {
        let mut received = self.memory.received.subscribe();
        match tokio::time::timeout(patience, received.wait_for(|received| is_so(received))).await {
            Ok(received) => received.expect("we hold the sender").clone(),
            Err(_) => {
                let (count, ids) = (self.received().len(), self.distinct_ids().len());
                panic!("waited {patience:?} in vain for {what}: {count} requests, {ids} ids")
            }
        }
    }
}

/// The first request of each id.
pub fn distinct(received: &[Received]) -> Vec<&Received> {
    let mut seen = HashSet::new();
    received.iter().filter(|one| seen.insert(one.id())).collect()
}

async fn accept(listener: TcpListener, memory: Arc<Memory>, mut stopped: oneshot::Receiver<()>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            Ok((stream, _)) = listener.accept() => { connections.spawn(serve(stream, Arc::clone(&memory))); }
            // Told to, or dropped.
            _ = &mut stopped => break,
        }
    }
    drop(listener);
    connections.shutdown().await;
}

/// One connection, until either side ends it.
async fn serve(mut stream: TcpStream, memory: Arc<Memory>) {
    let mut unread = Vec::new();
    while let Some(request) = read(&mut stream, &mut unread).await {
        // Before anybody can know of the request, so that no release is missed.
        let mut releases = memory.releases.subscribe();
        let behaviour = {
            let mut manners = memory.manners.lock().unwrap();
            manners.next.pop_front().unwrap_or(manners.usual)
        };
        memory.received.send_modify(|received| received.push(request));
        let (status, header) = match behaviour {
            Behaviour::Answer(status) => (status, String::new()),
            Behaviour::Later(status, when) => (status, format!("Retry-After: {when}\r\n")),
            Behaviour::Redirect(status, to) => (status, format!("Location: {to}\r\n")),
            Behaviour::Cut => return,
            Behaviour::Hang => {
                let _ = releases.changed().await;
                (200, String::new())
            }
        };
        let answer = format!("HTTP/1.1 {status} Told\r\n{header}Content-Length: 0\r\n\r\n");
        if stream.write_all(answer.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// The next request; none if the connection ends before it is complete.
async fn read(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<Received> {
    let head_length = loop {
        if let Some(at) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        more(stream, unread).await?;
    };
    let head = String::from_utf8(unread.drain(..head_length).collect()).ok()?;
    let mut lines = head.lines();
    let mut words = lines.next()?.split(' ').map(str::to_owned);
    let (method, path) = (words.next()?, words.next()?);
    let headers: HashMap<String, String> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_lowercase(), value.trim().to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(Some(0), |length| length.parse().ok())?;
    while unread.len() < length {
        more(stream, unread).await?;
    }
    Some(Received { method, path, headers, body: unread.drain(..length).collect() })
}

async fn more(stream: &mut TcpStream, unread: &mut Vec<u8>) -> Option<()> {
    match stream.read_buf(unread).await {
        Ok(1..) => Some(()),
        Ok(0) | Err(_) => None,
    }
}

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

/// As a sender would; an error if no answer came.
async fn send(
    client: &reqwest::Client,
    to: &Receiver,
    id: &str,
) -> Result<reqwest::Response, reqwest::Error> {
    let body = r#"{"test": 2432232314}"#;
    let signature = Webhook::new(SECRET).unwrap().sign(id, 1_614_265_330, body.as_bytes()).unwrap();
    let request = client.post(to.url()).header("Webhook-Id", id).header("webhook-timestamp", "1614265330");
    request.header("webhook-signature", format!("v1,AAAA {signature}")).body(body).send().await
}

fn client() -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none());
    client.timeout(PATIENCE).build().unwrap()
}

#[tokio::test]
async fn a_receiver_remembers_what_came_in_its_order() {
    let (receiver, client) = (Receiver::start().await, client());
    for id in ["a", "b", "a"] {
        assert_eq!(send(&client, &receiver, id).await.unwrap().status(), 200);
    }
    let received = receiver.wait_for(3).await;
    assert_eq!(received.iter().map(Received::id).collect::<Vec<_>>(), ["a", "b", "a"]);
    assert_eq!(receiver.distinct_ids(), ["a", "b"]);
    assert_eq!(receiver.wait_for_distinct(2).await[1].id(), "b");
    assert_eq!((received[0].method.as_str(), received[0].path.as_str()), ("POST", "/hook"));
    assert_eq!(received[0].json()["test"], 2_432_232_314_u64);
}

#[tokio::test]
async fn a_receiver_tells_a_right_signature_from_a_wrong_one() {
    let receiver = Receiver::start().await;
    send(&client(), &receiver, "msg_p5jXN8AQM9LWM0D4loKWxJek").await.unwrap();
    let received = receiver.received().remove(0);
    // The example that Standard Webhooks gives.
    assert_eq!(
        received.header("webhook-signature"),
        "v1,AAAA v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    );
    assert!(received.is_signed_with(SECRET));
    assert!(!received.is_signed_with("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"));
    let changed = |name: &str, value: &str| {
        let mut changed = received.clone();
        changed.headers.insert(name.to_owned(), value.to_owned());
        changed
    };
    assert!(!changed("webhook-id", "another").is_signed_with(SECRET));
    assert!(!changed("webhook-timestamp", "1614265331").is_signed_with(SECRET));
    assert!(!changed("webhook-signature", "v1,AAAA").is_signed_with(SECRET));
    assert!(!Received { body: b"{}".to_vec(), ..received }.is_signed_with(SECRET));
}

#[tokio::test]
async fn a_receiver_misbehaves_as_it_is_told() {
    let (receiver, client) = (Receiver::start().await, client());
    receiver.next(2, Behaviour::Answer(500));
    receiver.next(1, Behaviour::Later(429, "7"));
    receiver.next(1, Behaviour::Cut);
    receiver.next(1, Behaviour::Redirect(302, "http://elsewhere/"));
    for wanted in [500, 500, 429] {
        let answer = send(&client, &receiver, "a").await.unwrap();
        assert_eq!(answer.status(), wanted);
        assert_eq!(answer.headers().contains_key("retry-after"), wanted == 429);
    }
    assert!(send(&client, &receiver, "a").await.is_err());
    let answer = send(&client, &receiver, "a").await.unwrap();
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["location"]),
        (302, &"http://elsewhere/".parse().unwrap())
    );
    assert_eq!(send(&client, &receiver, "a").await.unwrap().status(), 200);
    assert_eq!(receiver.received().len(), 6);

    receiver.next(1, Behaviour::Answer(500));
    receiver.always(Behaviour::Answer(410));
    assert_eq!(send(&client, &receiver, "a").await.unwrap().status(), 410);
}

#[tokio::test]
async fn a_receiver_holds_answers_until_they_are_released() {
    let (receiver, client) = (Receiver::start().await, client());
    receiver.always(Behaviour::Hang);
    let mut hanging = tokio::spawn({
        let url = receiver.url();
        async move { client.post(url).send().await.unwrap().status() }
    });
    receiver.wait_for(1).await;
    let early = tokio::time::timeout(Duration::from_millis(50), &mut hanging).await;
    assert!(early.is_err(), "it was answered");
    receiver.release();
    assert_eq!(hanging.await.unwrap(), 200);
}

#[tokio::test]
async fn a_receiver_that_refuses_comes_back_where_it_was() {
    let (mut receiver, client) = (Receiver::start().await, client());
    send(&client, &receiver, "a").await.unwrap();
    receiver.refuse().await;
    assert!(send(&client, &receiver, "b").await.unwrap_err().is_connect());
    receiver.accept_again().await;
    assert_eq!(send(&client, &receiver, "b").await.unwrap().status(), 200);
    assert_eq!(receiver.distinct_ids(), ["a", "b"]);
}
