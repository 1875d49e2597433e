//! Where webhooks may go: judged when the connection is made, whatever was said before.

use crate::receiver::{Behaviour, Receiver};
use futures_util::FutureExt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use stockade::domain::{Endpoint, SigningSecret, Timestamp, WebhookId};
use stockade::webhooks::egress::{Egress, Lookup};
use stockade::webhooks::signature::new_secret;
use stockade::webhooks::{Answer, Message, Sender};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

const STRICT: Egress = Egress { loopback: false, private: false };
const LOCAL: Egress = Egress { loopback: true, private: false };
const OPEN: Egress = Egress { loopback: true, private: true };

fn endpoint(url: &str) -> Endpoint {
    Endpoint {
        id: WebhookId(uuid::Uuid::new_v4()),
        url: url.parse().unwrap(),
        types: None,
        sales: None,
        secrets: vec![SigningSecret { secret: new_secret(), until: None }],
        disabled_at: None,
        created_at: Timestamp::default(),
        since_ms: 0,
        version: 1,
    }
}

fn message() -> Message {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let at = Timestamp::from_ms(i64::try_from(now.as_millis()).unwrap()).unwrap();
    Message { id: uuid::Uuid::new_v4().to_string(), at, body: "{}".into(), parent: None }
}

/// Every name has the next of these addresses each time that it is looked up; the last one for ever.
fn names(answers: &[&[&str]]) -> Lookup {
    let answers: Vec<Vec<IpAddr>> =
        answers.iter().map(|some| some.iter().map(|ip| ip.parse().unwrap()).collect()).collect();
    let left = Arc::new(Mutex::new(answers));
    Arc::new(move |_| {
        let mut left = left.lock().unwrap();
        let next = if left.len() > 1 { left.remove(0) } else { left[0].clone() };
        async move { Ok(next) }.boxed()
    })
}

/// `http://shop.test:<port of the receiver>/hook`, and the receiver's IP.
fn named(receiver: &Receiver) -> (String, String) {
    let url: url::Url = receiver.url().parse().unwrap();
    (format!("http://shop.test:{}/hook", url.port().unwrap()), url.host_str().unwrap().to_owned())
}

#[tokio::test]
async fn a_message_is_signed_and_named() {
    let receiver = Receiver::start().await;
    let (endpoint, message) = (endpoint(&receiver.url()), message());
    let sender = Sender::new(LOCAL).unwrap();
    assert_eq!(sender.send(&endpoint, &message).await, Answer::Delivered(200));
    let [received] = &receiver.received()[..] else { panic!("one request") };
    assert_eq!((received.method.as_str(), received.id()), ("POST", message.id.as_str()));
    assert_eq!(received.header("content-type"), "application/cloudevents+json; charset=utf-8");
    assert!(received.header("user-agent").starts_with("stockade/"));
    assert!(received.is_signed_with(&endpoint.secrets[0].secret));
    assert!(!received.is_signed_with(&new_secret()));
}

#[tokio::test]
async fn a_name_that_leads_inside_is_never_connected_to() {
    let inside = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://shop.test:{}/", inside.local_addr().unwrap().port());
    let sender = Sender::with_lookup(STRICT, names(&[&["127.0.0.1"]])).unwrap();
    // The name itself says nothing bad: what it leads to does.
    assert!(sender.check(&url.parse().unwrap()).is_ok());
    assert!(matches!(sender.send(&endpoint(&url), &message()).await, Answer::Forbidden(_)));
    for literal in ["127.0.0.1", "2130706433", "[::ffff:127.0.0.1]"] {
        let url = format!("https://{literal}:{}/", inside.local_addr().unwrap().port());
        assert!(matches!(sender.send(&endpoint(&url), &message()).await, Answer::Forbidden(_)), "{literal}");
    }
    assert!(inside.accept().now_or_never().is_none(), "nobody has connected");
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_judged_again() {
    let receiver = Receiver::start().await;
    let (url, ip) = named(&receiver);
    let endpoint = endpoint(&url);
    let sender = Sender::with_lookup(OPEN, names(&[&[&ip], &["169.254.169.254"]])).unwrap();
    // It ends the connection, so the next message needs another one.
    receiver.always(Behaviour::Cut);
    let cut = Answer::Failed { status: None, error: "cut", retry_after: None };
    assert_eq!(sender.send(&endpoint, &message()).await, cut);
    let answer = sender.send(&endpoint, &message()).await;
    assert_eq!(answer, Answer::Forbidden("must not lead to the metadata of a cloud"));
    assert_eq!(receiver.received().len(), 1);
}

#[tokio::test]
async fn of_several_addresses_the_allowed_ones_are_used() {
    let receiver = Receiver::start().await;
    let (url, ip) = named(&receiver);
    let sender = Sender::with_lookup(OPEN, names(&[&["169.254.169.254", &ip, "224.0.0.1"]])).unwrap();
    assert_eq!(sender.send(&endpoint(&url), &message()).await, Answer::Delivered(200));
    let sender = Sender::with_lookup(OPEN, names(&[&[]])).unwrap();
    let failed = |error| Answer::Failed { status: None, error, retry_after: None };
    assert_eq!(sender.send(&endpoint(&url), &message()).await, failed("dns"));
}

#[tokio::test]
async fn a_redirect_leads_nowhere() {
    let (inside, receiver) = (Receiver::start().await, Receiver::start().await);
    let target: &'static str = Box::leak(inside.url().into_boxed_str());
    let sender = Sender::new(LOCAL).unwrap();
    for status in [301, 302, 303, 307, 308] {
        receiver.next(1, Behaviour::Redirect(status, target));
        let answer = sender.send(&endpoint(&receiver.url()), &message()).await;
        assert_eq!(answer, Answer::Failed { status: Some(status), error: "redirect", retry_after: None });
    }
    assert!(inside.received().is_empty());
}

#[tokio::test]
async fn what_a_receiver_answers_is_read_in_words_of_ours() {
    let mut receiver = Receiver::start().await;
    let sender = Sender::new(LOCAL).unwrap();
    let endpoint = endpoint(&receiver.url());
    let later = |seconds| Some(Duration::from_secs(seconds));
    let failed = |status, error, retry_after| Answer::Failed { status, error, retry_after };
    for (behaviour, expected) in [
        (Behaviour::Answer(204), Answer::Delivered(204)),
        (Behaviour::Answer(410), Answer::Gone),
        (Behaviour::Answer(500), failed(Some(500), "status", None)),
        (Behaviour::Answer(404), failed(Some(404), "status", None)),
        (Behaviour::Later(429, "120"), failed(Some(429), "status", later(120))),
        (Behaviour::Later(503, "999999999"), failed(Some(503), "status", later(86_400))),
        (Behaviour::Later(503, "Thu, 01 Jan 2026 00:00:00 GMT"), failed(Some(503), "status", later(0))),
        (Behaviour::Later(429, "soon"), failed(Some(429), "status", None)),
        (Behaviour::Later(500, "120"), failed(Some(500), "status", None)),
        (Behaviour::Cut, failed(None, "cut", None)),
    ] {
        receiver.next(1, behaviour);
        assert_eq!(sender.send(&endpoint, &message()).await, expected);
    }
    receiver.refuse().await;
    let other = Sender::new(LOCAL).unwrap();
    assert_eq!(other.send(&endpoint, &message()).await, failed(None, "connect", None));
}

#[tokio::test]
async fn a_receiver_that_speaks_no_tls_is_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let answers = tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.unwrap();
        connection.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
        connection
    });
    let answer = Sender::new(LOCAL).unwrap().send(&endpoint(&url), &message()).await;
    assert_eq!(answer, Answer::Failed { status: None, error: "tls", retry_after: None });
    answers.await.unwrap();
}
