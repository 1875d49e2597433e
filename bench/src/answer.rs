//! What a load generator needs to know of an answer: its status, how the service says it went, and which reservation it is about.

use anyhow::Context;
use std::str::from_utf8;

/// One answer, read as far as a load generator has to.
#[derive(Debug, PartialEq, Eq)]
pub struct Answer {
    /// Of HTTP.
    pub status: u16,
    /// The word of `Stockade-Outcome`, where there is one.
    pub outcome: Option<String>,
    /// The first `"id"` of the body, where it has one.
    pub id: Option<String>,
}

impl Answer {
    /// The answer at the start of `bytes`, once all of it is there.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Option<Self>> {
        let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") else {
            return Ok(None);
        };
        let head = from_utf8(&bytes[..end]).context("head is not text")?;
        let field = |name: &str| {
            head.lines()
                .filter_map(|line| line.split_once(':'))
                .find(|(field, _)| field.eq_ignore_ascii_case(name))
                .map(|(_, value)| value.trim())
        };
        let length: usize = field("content-length").context("answer without content-length")?.parse()?;
        let Some(body) = bytes.get(end + 4..end + 4 + length) else {
            return Ok(None);
        };
        let status = head.get(9..12).context("no status line")?.parse()?;
        Ok(Some(Self { status, outcome: field("stockade-outcome").map(str::to_owned), id: id_of(body) }))
    }
}

/// Without a parser of JSON: the generator shares its machine with what it measures.
fn id_of(body: &[u8]) -> Option<String> {
    const FIELD: &str = r#""id":""#;
    let body = from_utf8(body).ok()?;
    let rest = &body[body.find(FIELD)? + FIELD.len()..];
    Some(rest[..rest.find('"')?].to_owned())
}

#[cfg(test)]
mod tests {
    use super::Answer;

    const HELD: &str = "HTTP/1.1 201 Created\r\nContent-Length: 27\r\nStockade-Outcome: held\r\n\r\n{\"id\":\"r-1\",\"sale\":\"drop\"}\n";

    #[test]
    fn an_answer_is_read_once_it_is_complete() {
        for cut in 0..HELD.len() {
            assert_eq!(Answer::parse(&HELD.as_bytes()[..cut]).unwrap(), None, "{cut}");
        }
        let answer = Answer::parse(HELD.as_bytes()).unwrap().unwrap();
        assert_eq!(answer, Answer { status: 201, outcome: Some("held".into()), id: Some("r-1".into()) });
    }

    #[test]
    fn what_is_not_there_is_none() {
        let bare = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}";
        let answer = Answer::parse(bare.as_bytes()).unwrap().unwrap();
        assert_eq!(answer, Answer { status: 503, outcome: None, id: None });
    }

    #[test]
    fn an_answer_of_unknown_length_is_an_error() {
        Answer::parse(b"HTTP/1.1 200 OK\r\n\r\n").unwrap_err();
        Answer::parse(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n").unwrap_err();
    }
}
