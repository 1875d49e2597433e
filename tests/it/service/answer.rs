//! An answer, and what is promised about every one.

use super::document;
use reqwest::header::HeaderMap;
use serde_json::Value;

#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    /// Null if it is not JSON.
    pub body: Value,
}

impl Answer {
    pub async fn read(response: reqwest::Response) -> Result<Self, reqwest::Error> {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let bytes = response.bytes().await?;
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Ok(Self { status, headers, text: String::from_utf8_lossy(&bytes).into_owned(), body })
    }

    /// Of a header; empty if there is none.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// The word in `Stockade-Outcome`.
    pub fn outcome(&self) -> &str {
        self.header("stockade-outcome")
    }

    /// Of a problem; empty if it is a good answer.
    pub fn code(&self) -> &str {
        let code = self.body["code"].as_str().unwrap_or_default();
        if self.status < 400 { "" } else { code }
    }

    /// Of the object itself.
    pub fn id(&self) -> String {
        self.body["id"].as_str().unwrap_or_else(|| panic!("no id: {}", self.text)).to_owned()
    }

    /// Status, and `code` where it is a problem.
    #[track_caller]
    pub fn expect(self, status: u16, code: &str) -> Self {
        assert_eq!((self.status, self.code()), (status, code), "{}", self.text);
        self
    }

    /// A good answer.
    #[track_caller]
    pub fn ok(self) -> Self {
        assert!(self.status < 300, "{} {}", self.status, self.text);
        self
    }

    /// 422, with the field that is wrong.
    #[track_caller]
    pub fn names(self, field: &str) -> Self {
        assert_eq!((self.status, self.code()), (422, "invalid_request"), "{}", self.text);
        assert_eq!(self.body["errors"][0]["field"], field, "{}", self.text);
        self
    }

    pub fn check(&self, method: &str, path: &str) {
        let said = format!("{method} {path}: {} {}", self.status, self.text);
        assert!(!self.header("x-request-id").is_empty(), "{said}");
        assert_eq!(self.header("x-content-type-options"), "nosniff", "{said}");
        assert_eq!(self.header("server"), "", "{said}");
        if path.starts_with("/v1") && self.code() != "not_found" {
            assert_eq!(self.header("cache-control"), "no-store", "{said}");
            assert_eq!(self.outcome().is_empty(), matches!(method, "GET" | "HEAD"), "{said}");
        }
        let replayed = self.header("idempotent-replayed");
        assert_eq!(replayed, if self.outcome() == "replayed" { "true" } else { "" }, "{said}");
        assert_eq!(self.header("www-authenticate"), if self.status == 401 { "Bearer" } else { "" }, "{said}");
        if self.status >= 400 && method != "HEAD" {
            self.check_problem(method, &said);
        }
        document::check(method, path, self);
    }

    fn check_problem(&self, method: &str, said: &str) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{said}");
        assert_eq!(self.body["type"], format!("/problems/{}", self.code()), "{said}");
        assert_eq!(self.body["status"], self.status, "{said}");
        assert_eq!(self.body["instance"], self.header("x-request-id"), "{said}");
        assert!(self.body["title"].is_string() && self.body["detail"].is_string(), "{said}");
        assert!(self.body["retryable"].is_boolean(), "{said}");
        if method != "GET" {
            assert_eq!(self.outcome(), self.code(), "{said}");
        }
        assert_eq!(!self.body["outcome"].is_null(), self.status >= 500, "{said}");
        assert_eq!(!self.header("retry-after").is_empty(), matches!(self.status, 503 | 408 | 429), "{said}");
        if self.status == 422 {
            assert!(self.body["errors"][0]["field"].is_string(), "{said}");
            assert!(self.body["errors"][0]["message"].is_string(), "{said}");
        }
        // Nothing of what is inside.
        for inside in ["redis", "Redis", "lua", "EVAL", "st:{", "panicked", "src/"] {
            let words = format!("{} {}", self.body["title"], self.body["detail"]);
            assert!(!words.contains(inside), "{said}");
        }
    }
}
