//! A listener of Server-Sent Events, strict about their form.

use serde_json::Value;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(30);

/// An open stream.
pub struct Listener {
    response: reqwest::Response,
    unread: Vec<u8>,
    has_begun: bool,
}

/// One event.
#[derive(Debug, Clone, PartialEq)]
pub struct Heard {
    pub id: String,
    pub kind: String,
    pub data: Value,
}

impl Listener {
    pub fn new(response: reqwest::Response) -> Self {
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap());
        assert_eq!(response.status(), 200);
        assert_eq!(header("content-type"), Some("text/event-stream"));
        assert_eq!(header("cache-control"), Some("no-store"));
        assert_eq!(header("x-accel-buffering"), Some("no"));
        assert_eq!(header("content-length"), None);
        Self { response, unread: Vec::new(), has_begun: false }
    }

    /// The next event; none when the stream has ended as it should.
    pub async fn next(&mut self) -> Option<Heard> {
        loop {
            let block = self.block().await?;
            if !self.has_begun {
                assert_eq!(block, "retry: 2000");
                self.has_begun = true;
            } else if block != ":" {
                return Some(read(&block));
            }
        }
    }

    /// So many events.
    pub async fn take(&mut self, count: usize) -> Vec<Heard> {
        let mut heard = Vec::new();
        while heard.len() < count {
            heard.push(self.next().await.expect("the stream goes on"));
        }
        heard
    }

    /// Everything up to and with the first event of this type.
    pub async fn until(&mut self, kind: &str) -> Vec<Heard> {
        let mut heard = Vec::new();
        loop {
            heard.push(self.next().await.expect("the stream goes on"));
            if heard.last().unwrap().kind == format!("dev.stockade.{kind}") {
                return heard;
            }
        }
    }

    /// Lines up to an empty one.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some(end) = self.unread.windows(2).position(|end| end == b"\n\n") {
                let block = self.unread.drain(..end + 2).take(end).collect();
                return Some(String::from_utf8(block).unwrap());
            }
            let more = tokio::time::timeout(PATIENCE, self.response.chunk()).await;
            match more.expect("something is heard in time").unwrap() {
                Some(bytes) => self.unread.extend_from_slice(&bytes),
                None => {
                    assert!(self.unread.is_empty(), "it ends in the middle of an event");
                    return None;
                }
            }
        }
    }
}

fn read(block: &str) -> Heard {
    let lines: Vec<&str> = block.split('\n').collect();
    let [id, kind, data] = &lines[..] else { panic!("not three lines: {block}") };
    let heard = Heard {
        id: id.strip_prefix("id: ").unwrap().into(),
        kind: kind.strip_prefix("event: ").unwrap().into(),
        data: serde_json::from_str(data.strip_prefix("data: ").unwrap()).unwrap(),
    };
    assert_eq!(
        (&heard.data["cursor"], &heard.data["type"]),
        (&heard.id.as_str().into(), &heard.kind.as_str().into())
    );
    heard
}
