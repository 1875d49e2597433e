//! Families that the recorder does not keep, in Prometheus's text format 0.0.4.

use super::catalogue::{Kind, Metric};
use std::fmt::Write;

/// One number with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    labels: Vec<(&'static str, String)>,
    value: f64,
}

impl Sample {
    /// Without labels.
    pub fn new(value: f64) -> Self {
        Self { labels: Vec::new(), value }
    }

    /// With one label more.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.labels.push((name, value.into()));
        self
    }
}

/// Writes what a family is, and its numbers.
pub(super) fn write_family(page: &mut String, metric: &Metric, samples: &[Sample]) {
    let kind = match metric.kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram(_) => "histogram",
    };
    let name = metric.name;
    // Writing to a string cannot fail.
    let _ = writeln!(page, "# HELP {name} {}\n# TYPE {name} {kind}", metric.help());
    for sample in samples {
        page.push_str(name);
        for (place, (label, value)) in sample.labels.iter().enumerate() {
            let _ = write!(page, "{}{label}=\"", if place == 0 { '{' } else { ',' });
            value.chars().for_each(|c| match c {
                '\\' => page.push_str("\\\\"),
                '"' => page.push_str("\\\""),
                '\n' => page.push_str("\\n"),
                c => page.push(c),
            });
            page.push('"');
        }
        page.push_str(if sample.labels.is_empty() { " " } else { "} " });
        let _ = writeln!(page, "{}", sample.value);
    }
    page.push('\n');
}
