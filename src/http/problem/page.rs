//! The table of problems for people: one page a code, and the section of the README.

use super::Code;
use serde::Serialize;
use std::fmt::Write;
use utoipa::ToSchema;

/// What a code means: `GET /problems/{code}`.
#[derive(Debug, Serialize, ToSchema)]
pub struct ProblemType {
    /// URI of this page, the `type` of its problems.
    #[serde(rename = "type")]
    pub uri: &'static str,
    /// The word that programs compare.
    pub code: &'static str,
    /// Status of the answer.
    pub status: u16,
    /// What happened, in a few words that never change.
    pub title: &'static str,
    /// What to do, in a few words.
    pub action: &'static str,
    /// What to do, in a sentence.
    pub advice: &'static str,
    /// Whether the same request with the same key may be sent again as it is.
    pub retryable: bool,
    /// For a 5xx: whether the request took effect.
    pub outcome: Option<&'static str>,
}

impl From<Code> for ProblemType {
    fn from(code: Code) -> Self {
        Self {
            uri: code.uri(),
            code: code.as_str(),
            status: code.status(),
            title: code.title(),
            action: code.remedy().as_str(),
            advice: code.advice(),
            retryable: code.retryable(),
            outcome: code.outcome(),
        }
    }
}

/// The page of one code. Nothing in it comes from a request.
pub fn html(code: Code) -> String {
    let advice = escaped(code.advice());
    let outcome =
        code.outcome().map_or(String::new(), |word| format!("<p>Outcome: <code>{word}</code>.</p>"));
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
         <h1>{title}</h1><p><code>{code}</code>, status {status}.</p><p>What to do: <b>{action}</b>. {advice}</p>\
         {outcome}<p><a href=\"/problems\">All problems</a></p></html>\n",
        title = escaped(code.title()),
        code = code.as_str(),
        status = code.status(),
        action = code.remedy().as_str(),
    )
}

/// The page of all codes.
pub fn html_of_all() -> String {
    let mut rows = String::new();
    for code in Code::ALL {
        let (word, uri) = (code.as_str(), code.uri());
        let (status, action, title) = (code.status(), code.remedy().as_str(), escaped(code.title()));
        let _ = write!(
            rows,
            "<tr><td><a href=\"{uri}\"><code>{word}</code></a><td>{status}<td>{action}<td>{title}"
        );
    }
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Problems</title><h1>Problems</h1>\
         <table><tr><th>code<th>status<th>what to do<th>meaning{rows}</table></html>\n"
    )
}

/// The table as Markdown, for the README.
pub fn markdown() -> String {
    let mut table = String::from("| code | status | what to do | meaning |\n|---|---|---|---|\n");
    for code in Code::ALL {
        let _ = writeln!(
            table,
            "| `{}` | {} | **{}** | {}. {} |",
            code.as_str(),
            code.status(),
            code.remedy().as_str(),
            code.title(),
            code.advice()
        );
    }
    table
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_readme_repeats_the_table() {
        let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
        let Ok(readme) = std::fs::read_to_string(readme) else { return };
        let Some((_, rest)) = readme.split_once("<!-- problems -->\n") else { return };
        let (section, _) = rest.split_once("<!-- /problems -->").expect("the section has an end");
        assert_eq!(section.trim(), markdown().trim(), "replace the section by this:\n{}", markdown());
    }

    #[test]
    fn every_code_has_a_row_and_a_page() {
        for code in Code::ALL {
            assert!(markdown().contains(&format!("| `{}` | {} |", code.as_str(), code.status())));
            assert!(html(*code).contains(code.as_str()));
            assert!(html_of_all().contains(code.uri()));
        }
    }
}
