//! A collector of spans: takes OTLP over HTTP, and remembers it.

use crate::protobuf::Message;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// One span, as it was sent: of `opentelemetry/proto/trace/v1/trace.proto`.
#[derive(Debug, Clone)]
pub struct Span {
    pub trace_id: String,
    pub span_id: String,
    /// Empty if it has none.
    pub parent: String,
    pub name: String,
    pub kind: u64,
    pub attributes: BTreeMap<String, String>,
    /// Trace and span of each.
    pub links: Vec<(String, String)>,
    /// 2 is an error.
    pub status: u64,
    /// Of the resource that it belongs to.
    pub resource: BTreeMap<String, String>,
}

impl Span {
    pub fn attribute(&self, name: &str) -> &str {
        self.attributes.get(name).map_or("", String::as_str)
    }
}

/// Listens for the length of the test's runtime.
pub struct Collector {
    pub address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Collector {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let collector =
            Self { address: listener.local_addr().unwrap(), spans: Arc::default(), heads: Arc::default() };
        let (spans, heads) = (Arc::clone(&collector.spans), Arc::clone(&collector.heads));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&spans), Arc::clone(&heads)));
            }
        });
        collector
    }

    pub fn spans(&self) -> Vec<Span> {
        self.spans.lock().unwrap().clone()
    }

    /// Heads of the requests, in lower case.
    pub fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }
}

async fn serve(mut stream: TcpStream, spans: Arc<Mutex<Vec<Span>>>, heads: Arc<Mutex<Vec<String>>>) {
    let mut read = Vec::new();
    loop {
        let end = loop {
            if let Some(at) = read.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            if stream.read_buf(&mut read).await.unwrap_or(0) == 0 {
                return;
            }
        };
        let head = String::from_utf8_lossy(&read[..end]).to_lowercase();
        let length =
            head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
        let whole = end + length.expect("a length");
        while read.len() < whole {
            assert_ne!(stream.read_buf(&mut read).await.unwrap(), 0, "cut");
        }
        // It receives webhooks, too.
        if head.starts_with("post /v1/traces ") {
            spans.lock().unwrap().extend(spans_of(&Message::read(&read[end..whole])));
        }
        heads.lock().unwrap().push(head);
        read.drain(..whole);
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    }
}

/// `ExportTraceServiceRequest`.
fn spans_of(request: &Message<'_>) -> Vec<Span> {
    let mut spans = Vec::new();
    for of_resource in request.messages(1) {
        let resource =
            of_resource.messages(1).next().map(|resource| attributes(&resource, 1)).unwrap_or_default();
        for of_scope in of_resource.messages(2) {
            spans.extend(of_scope.messages(2).map(|span| Span {
                trace_id: hex(span.bytes(1)),
                span_id: hex(span.bytes(2)),
                parent: hex(span.bytes(4)),
                name: span.text(5),
                kind: span.number(6),
                attributes: attributes(&span, 9),
                links: span.messages(13).map(|link| (hex(link.bytes(1)), hex(link.bytes(2)))).collect(),
                status: span.messages(15).next().map_or(0, |status| status.number(3)),
                resource: resource.clone(),
            }));
        }
    }
    spans
}

/// Pairs of a key and an `AnyValue`, which is a text (1) or a whole number (3) here.
fn attributes(message: &Message<'_>, field: u64) -> BTreeMap<String, String> {
    let pairs = message.messages(field).map(|pair| {
        let value = pair.messages(2).next().expect("a value");
        let text = value.text(1);
        (pair.text(1), if text.is_empty() { value.number(3).to_string() } else { text })
    });
    pairs.collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
