//! Which traces are recorded: what `OTEL_TRACES_SAMPLER` says, as every program with OpenTelemetry understands it.

use super::TraceId;
use anyhow::{Context, Result, bail};

const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
const SAMPLER_ARG: &str = "OTEL_TRACES_SAMPLER_ARG";

/// Decides whether a trace is recorded. By default whoever begins it decides, and those that begin here are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// A trace that others have begun is recorded as they say.
    is_parent_based: bool,
    /// The part of all others, by their ids: each program that is told the same part takes the same ones.
    ratio: f64,
}

impl Default for Sampling {
    fn default() -> Self {
        Self { is_parent_based: true, ratio: 1.0 }
    }
}

impl Sampling {
    /// As the environment says. Errors when it says something else than the standard's words.
    pub fn from_env() -> Result<Self> {
        let said = |name| std::env::var(name).ok().filter(|said| !said.is_empty());
        Self::read(said(SAMPLER).as_deref(), said(SAMPLER_ARG).as_deref())
    }

    fn read(sampler: Option<&str>, arg: Option<&str>) -> Result<Self> {
        let Some(sampler) = sampler else { return Ok(Self::default()) };
        let (is_parent_based, root) = match sampler.strip_prefix("parentbased_") {
            Some(root) => (true, root),
            None => (false, sampler),
        };
        let ratio = match root {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => {
                let ratio = arg.unwrap_or("1").parse().ok().filter(|ratio| (0.0..=1.0).contains(ratio));
                ratio.with_context(|| format!("{SAMPLER_ARG} is a number from 0 to 1, not {arg:?}"))?
            }
            _ => bail!(
                "{SAMPLER} is always_on, always_off or traceidratio, also with parentbased_ before it; not {sampler:?}"
            ),
        };
        Ok(Self { is_parent_based, ratio })
    }

    /// Whether a span is recorded, given whether its parent is.
    pub fn of(self, parent: Option<bool>, trace_id: TraceId) -> bool {
        match parent {
            Some(is_sampled) if self.is_parent_based => is_sampled,
            _ => self.takes(trace_id),
        }
    }

    /// As OpenTelemetry compares: 63 bits of the id against the ratio.
    fn takes(self, TraceId(id): TraceId) -> bool {
        let below = (self.ratio * (1_u64 << 63) as f64) as u64;
        self.ratio >= 1.0 || (id as u64 >> 1) < below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOW: TraceId = TraceId(1 << 100 | 2);
    const HIGH: TraceId = TraceId(u64::MAX as u128);

    fn read(sampler: &str, arg: Option<&str>) -> Sampling {
        Sampling::read(Some(sampler), arg).unwrap()
    }

    #[test]
    fn by_default_a_parent_decides_and_what_has_none_is_recorded() {
        for sampling in [Sampling::default(), Sampling::read(None, None).unwrap()] {
            assert!(
                sampling.of(None, HIGH) && sampling.of(Some(true), HIGH) && !sampling.of(Some(false), LOW)
            );
        }
    }

    #[test]
    fn every_word_of_the_standard_means_what_it_says() {
        // (root, of a sampled parent, of another)
        for (sampler, expected) in [
            ("always_on", (true, true, true)),
            ("always_off", (false, false, false)),
            ("parentbased_always_on", (true, true, false)),
            ("parentbased_always_off", (false, true, false)),
            ("traceidratio", (true, true, true)),
            ("parentbased_traceidratio", (true, true, false)),
        ] {
            let sampling = read(sampler, None);
            let [root, of_sampled, of_other] =
                [None, Some(true), Some(false)].map(|parent| sampling.of(parent, HIGH));
            assert_eq!((root, of_sampled, of_other), expected, "{sampler}");
        }
    }

    #[test]
    fn a_ratio_takes_its_part_by_the_trace_id() {
        let half = read("traceidratio", Some("0.5"));
        assert!(half.of(Some(false), LOW) && !half.of(Some(true), HIGH));
        let half = read("parentbased_traceidratio", Some("0.5"));
        assert!(half.of(Some(true), HIGH) && half.of(None, LOW) && !half.of(None, HIGH));
        assert!(!read("traceidratio", Some("0")).of(None, LOW));
    }

    #[test]
    fn other_words_stop_the_start() {
        for (sampler, arg) in
            [("sometimes", None), ("traceidratio", Some("2")), ("traceidratio", Some("half"))]
        {
            let error = Sampling::read(Some(sampler), arg).unwrap_err().to_string();
            assert!(error.starts_with("OTEL_TRACES_SAMPLER"), "{error}");
        }
    }
}
