//! HTTP by hand, for what a good client never does: bytes of any kind, halves of requests, vanishing.

use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// A connection.
pub struct Wire {
    stream: TcpStream,
    unread: Vec<u8>,
}

#[derive(Debug)]
pub struct WireAnswer {
    pub status: u16,
    /// In lower case, as they came.
    pub head: String,
    pub body: Vec<u8>,
}

impl WireAnswer {
    /// Whether the service will close the connection.
    pub fn closes(&self) -> bool {
        self.head.contains("connection: close")
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

impl Wire {
    pub async fn connect(to: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, unread: Vec::new() })
    }

    /// From another address of loopback than usual.
    pub async fn connect_from(from: Ipv4Addr, to: SocketAddr) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.bind((from, 0).into())?;
        Ok(Self { stream: socket.connect(to).await?, unread: Vec::new() })
    }

    /// Takes in few bytes before it is read from: the system gives at least 2 KB, and doubles what is asked for.
    pub async fn connect_narrow(to: SocketAddr) -> Result<Self> {
        let socket = TcpSocket::new_v4()?;
        socket.set_recv_buffer_size(4_096)?;
        Ok(Self { stream: socket.connect(to).await?, unread: Vec::new() })
    }

    pub async fn send(&mut self, bytes: impl AsRef<[u8]>) -> Result<()> {
        self.stream.write_all(bytes.as_ref()).await
    }

    /// Goes with a reset instead of a farewell.
    pub fn reset(self) {
        let _ = self.stream.set_zero_linger();
    }

    /// The next answer; `UnexpectedEof` if the connection ends before it is complete.
    pub async fn answer(&mut self) -> Result<WireAnswer> {
        let in_time = tokio::time::timeout(Duration::from_secs(60), self.read()).await;
        in_time.map_err(|_| Error::from(ErrorKind::TimedOut))?
    }

    /// The head of an answer whose body comes in chunks.
    pub async fn head(&mut self) -> Result<String> {
        let end = self.position(b"\r\n\r\n").await? + 4;
        Ok(String::from_utf8_lossy(&self.unread.drain(..end).collect::<Vec<_>>()).to_lowercase())
    }

    /// One chunk of it; the last is empty.
    pub async fn chunk(&mut self) -> Result<Vec<u8>> {
        let begin = self.position(b"\r\n").await? + 2;
        let length = std::str::from_utf8(&self.unread[..begin - 2]).ok();
        let length = length.and_then(|length| usize::from_str_radix(length, 16).ok());
        let end = begin + length.ok_or(ErrorKind::InvalidData)?;
        while self.unread.len() < end + 2 {
            self.more().await?;
        }
        Ok(self.unread.drain(..end + 2).skip(begin).take(end - begin).collect())
    }

    async fn position(&mut self, of: &[u8]) -> Result<usize> {
        loop {
            match self.unread.windows(of.len()).position(|there| there == of) {
                Some(at) => return Ok(at),
                None => self.more().await?,
            }
        }
    }

    async fn read(&mut self) -> Result<WireAnswer> {
        let head_length = self.position(b"\r\n\r\n").await? + 4;
        let head = String::from_utf8_lossy(&self.unread[..head_length]).to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let length = length.map_or(0, |text| text.trim().parse().unwrap());
        while self.unread.len() < head_length + length {
            self.more().await?;
        }
        let rest = self.unread.split_off(head_length + length);
        let body = self.unread.split_off(head_length);
        self.unread = rest;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        Ok(WireAnswer { status: status.ok_or(ErrorKind::InvalidData)?, head, body })
    }

    async fn more(&mut self) -> Result<()> {
        match self.stream.read_buf(&mut self.unread).await? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// A POST as it goes over the wire.
pub fn post(path: &str, key: &str, body: &str) -> String {
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nIdempotency-Key: {key}\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}
