//! `examples/webhook_receiver.rs`, in a process of its own.

use crate::sandbox::{Sandbox, eventually, eventually_blocking};
use crate::service::{InProcess, Wire, own_address};
use crate::support::example_program;
use serde_json::json;
use standardwebhooks::Webhook;
use std::fs::File;
use std::net::SocketAddr;
use std::process::{Command, Stdio};

const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const OLDER: &str = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD";
const FOREIGN: &str = "whsec_plJ3nmyCDGBKInavdOK15jsl";
const OUTPUT: &str = "receiver.log";

/// The example, until this is dropped.
struct Example {
    sandbox: Sandbox,
    address: SocketAddr,
}

impl Example {
    fn start(secrets: &[&str]) -> Self {
        Self::start_on(own_address(), secrets)
    }

    fn start_on(address: SocketAddr, secrets: &[&str]) -> Self {
        let example = Self { sandbox: Sandbox::new(), address };
        let output = File::create(example.sandbox.path().join(OUTPUT)).unwrap();
        let mut command = Command::new(example_program("webhook_receiver"));
        command.args(["--listen", &example.address.to_string()]);
        command.args(secrets.iter().flat_map(|secret| ["--secret", secret]));
        command.current_dir(example.sandbox.path()).env_remove("WEBHOOK_SECRETS").stdin(Stdio::null());
        let mut child = command.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        eventually_blocking("the example listens", || {
            assert!(child.try_wait().unwrap().is_none(), "it ended: {:?}", example.lines());
            example.lines().iter().any(|line| line.starts_with("listens on"))
        });
        example
    }

    /// What it has said.
    fn lines(&self) -> Vec<String> {
        let said = std::fs::read_to_string(self.sandbox.path().join(OUTPUT)).unwrap_or_default();
        said.lines().map(str::to_owned).collect()
    }

    /// Of events alone.
    fn events(&self) -> Vec<String> {
        self.lines().into_iter().filter(|line| !line.starts_with("listens on")).collect()
    }

    /// The status of its answer.
    async fn send(&self, id: &str, timestamp: i64, signatures: &str, body: &str) -> u16 {
        let mut wire = Wire::connect(self.address).await.unwrap();
        let length = body.len();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: localhost\r\nWebhook-Id: {id}\r\nWebhook-Timestamp: {timestamp}\r\n\
             Webhook-Signature: {signatures}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        wire.send(request).await.unwrap();
        wire.answer().await.unwrap().status
    }
}

fn sign(secret: &str, id: &str, timestamp: i64, body: &str) -> String {
    Webhook::new(secret).unwrap().sign(id, timestamp, body.as_bytes()).unwrap()
}

fn now() -> i64 {
    jiff::Timestamp::now().as_second()
}

fn barrier(word: &str, data: serde_json::Value) -> String {
    json!({"type": format!("dev.stockade.barrier.{word}"), "source": "/v1/barriers/nightly", "subject": "nightly",
           "data": data})
    .to_string()
}

#[tokio::test]
async fn the_example_prints_a_line_for_each_new_event() {
    let example = Example::start(&[SECRET, OLDER]);
    let completed = barrier("completed", json!({"completed": 3, "expected": 3}));
    for _ in 0..3 {
        // A try later is signed anew, and has the same id.
        let signature = sign(SECRET, "a", now(), &completed);
        assert_eq!(example.send("a", now(), &signature, &completed).await, 204);
    }
    let timed_out = barrier(
        "timed_out",
        json!({"completed": 1, "expected": 3, "missing": ["p2"],
               "failed_participants": [{"participant": "p3", "note": "disk full"}]}),
    );
    // While a secret is changed there are two signatures, and the receiver may know either, or both.
    let both = format!("{} {}", sign(FOREIGN, "b", now(), &timed_out), sign(OLDER, "b", now(), &timed_out));
    assert_eq!(example.send("b", now(), &both, &timed_out).await, 204);
    let test =
        json!({"type": "dev.stockade.webhook.test", "source": "/v1/webhooks/7", "data": {}}).to_string();
    assert_eq!(example.send("c", now(), &sign(SECRET, "c", now(), &test), &test).await, 204);
    eventually("all are printed", async || example.events().len() == 3).await;
    assert_eq!(
        example.events(),
        [
            "barrier.completed nightly 3/3",
            "barrier.timed_out nightly 1/3, failed: p3, missing: p2",
            "webhook.test /v1/webhooks/7"
        ]
    );
}

#[tokio::test]
async fn the_example_refuses_what_is_not_genuine() {
    let example = Example::start(&[SECRET]);
    let (body, now) = (barrier("completed", json!({"completed": 3, "expected": 3})), now());
    let right = sign(SECRET, "a", now, &body);
    let refused = [
        ("a", now, sign(FOREIGN, "a", now, &body), body.clone()),
        ("b", now, right.clone(), body.clone()),
        ("a", now - 1, right.clone(), body.clone()),
        ("a", now, right.clone(), body.replace('3', "4")),
        ("a", now, right.replace("v1,", "v1a,"), body.clone()),
        ("a", now, right[..right.len() - 4].to_owned(), body.clone()),
        ("a", now, String::new(), body.clone()),
        // Signed well, and too long ago, or too far ahead.
        ("a", now - 310, sign(SECRET, "a", now - 310, &body), body.clone()),
        ("a", now + 310, sign(SECRET, "a", now + 310, &body), body.clone()),
        ("a", i64::MIN, sign(SECRET, "a", i64::MIN, &body), body.clone()),
    ];
    for (id, timestamp, signatures, body) in &refused {
        assert_eq!(
            example.send(id, *timestamp, signatures, body).await,
            401,
            "{id} {timestamp} {signatures} {body}"
        );
    }
    assert_eq!(example.events(), [""; 0]);
    // None of them has used up the id.
    assert_eq!(example.send("a", now, &right, &body).await, 204);
    assert_eq!(example.events(), ["barrier.completed nightly 3/3"]);
}

/// README's example of a barrier: three arrivals, one of them fires, and one message comes with a valid signature.
#[tokio::test]
async fn the_example_hears_once_of_a_barrier() {
    let service = InProcess::start();
    let address = own_address();
    let nightly =
        json!({"participants": ["p1", "p2", "p3"], "notify": [{"url": format!("http://{address}/")}]});
    let put = service.api.put("/v1/barriers/nightly", &nightly).await.expect(201, "").body;
    let example = Example::start_on(address, &[put["notify"][0]["secret"].as_str().unwrap()]);
    let mut fired = Vec::new();
    for participant in ["p1", "p2", "p3"] {
        let arrival = json!({"participant": participant});
        let answer = service.api.post("/v1/barriers/nightly/arrivals", &arrival).await.expect(200, "");
        fired.push(answer.body["fired"].as_bool().unwrap());
    }
    assert_eq!(fired, [false, false, true]);
    eventually("the example hears of it", async || !example.events().is_empty()).await;
    assert_eq!(example.events(), ["barrier.completed nightly 3/3"]);
}
