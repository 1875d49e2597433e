//! `traceparent`, as W3C Trace Context (level 1) has it.

use super::Sampling;
use std::fmt;

/// Characters of a `traceparent` of version 00: `00-<trace>-<span>-<flags>`.
const CHARS: usize = 55;
/// The only flag there is; the others must be dropped.
const SAMPLED: u8 = 1;

/// Names a trace; never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceId(pub(super) u128);

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

/// A span as its children see it, also those in other programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// The trace that it belongs to.
    pub trace_id: TraceId,
    /// Itself; never 0.
    pub(super) span_id: u64,
    /// Whether the trace is to be recorded.
    pub is_sampled: bool,
}

impl TraceParent {
    /// Reads the value of a header; none if it is not exactly what the standard asks for. A later version may have more
    /// behind its flags.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (known, more) = text.split_at_checked(CHARS)?;
        let [version, trace_id, span_id, flags] = [0..2, 3..35, 36..52, 53..55].map(|at| hex(&known[at]));
        let (version, trace_id, span_id, flags) = (version?, trace_id?, span_id?, flags?);
        let is_joined = [2, 35, 52].iter().all(|at| known[*at] == b'-');
        let may_have_more = version > 0 && more.starts_with(b"-");
        if !is_joined || version == 0xff || !(more.is_empty() || may_have_more) {
            return None;
        }
        Self::new(trace_id, u64::try_from(span_id).ok()?, flags & u128::from(SAMPLED) != 0)
    }

    pub(super) fn new(trace_id: u128, span_id: u64, is_sampled: bool) -> Option<Self> {
        let is_legal = trace_id != 0 && span_id != 0;
        is_legal.then_some(Self { trace_id: TraceId(trace_id), span_id, is_sampled })
    }

    /// The first span of a new trace.
    pub fn begin(sampling: Sampling) -> Self {
        let trace_id = TraceId(u128::from_be_bytes(random()).max(1));
        Self { trace_id, span_id: new_span_id(), is_sampled: sampling.of(None, trace_id) }
    }

    /// A span that this one has caused.
    pub fn child(self, sampling: Sampling) -> Self {
        let is_sampled = sampling.of(Some(self.is_sampled), self.trace_id);
        Self { span_id: new_span_id(), is_sampled, ..self }
    }
}

impl fmt::Display for TraceParent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{}-{:016x}-{:02x}", self.trace_id, self.span_id, u8::from(self.is_sampled) * SAMPLED)
    }
}

fn new_span_id() -> u64 {
    u64::from_be_bytes(random()).max(1)
}

/// A name that is not quite random still names: a system without randomness has larger worries.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let _ = getrandom::fill(&mut bytes);
    bytes
}

/// A number in lower-case digits, 32 at most.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |number, digit| {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn parse(text: &str) -> Option<TraceParent> {
        TraceParent::parse(text.as_bytes())
    }

    #[test]
    fn the_example_of_the_standard_is_read_and_written() {
        let text = format!("00-{TRACE}-{SPAN}-01");
        let parent = parse(&text).unwrap();
        assert!(parent.is_sampled);
        assert_eq!(parent.trace_id.to_string(), TRACE);
        assert_eq!(parent.to_string(), text);
    }

    #[test]
    fn what_is_not_exactly_right_is_ignored() {
        let zero_trace = "0".repeat(32);
        for bad in [
            String::new(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-1"),
            format!("00-{TRACE}-{SPAN}-01-"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!(" 00-{TRACE}-{SPAN}-01"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0g-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
            format!("00-{TRACE}-{SPAN}-0A"),
            format!("00-{zero_trace}-{SPAN}-01"),
            format!("00-{TRACE}-0000000000000000-01"),
            format!("00_{TRACE}-{SPAN}-01"),
            format!("00-{TRACE}_{SPAN}-01"),
            format!("00-{TRACE}-{SPAN}_01"),
            format!("00-{}é-{SPAN}-01", &TRACE[2..]),
            format!("01-{TRACE}-{SPAN}-01more"),
        ] {
            assert_eq!(parse(&bad), None, "{bad}");
        }
    }

    #[test]
    fn a_later_version_is_read_as_far_as_it_is_known() {
        for good in [format!("01-{TRACE}-{SPAN}-01"), format!("cc-{TRACE}-{SPAN}-01-what-the-future-will-be")]
        {
            assert_eq!(parse(&good).unwrap().to_string(), format!("00-{TRACE}-{SPAN}-01"));
        }
    }

    #[test]
    fn of_the_flags_only_the_known_one_is_kept() {
        for (flags, written) in [("00", "00"), ("01", "01"), ("02", "00"), ("09", "01"), ("ff", "01")] {
            let parent = parse(&format!("00-{TRACE}-{SPAN}-{flags}")).unwrap();
            assert_eq!(parent.to_string(), format!("00-{TRACE}-{SPAN}-{written}"));
        }
    }

    #[test]
    fn a_child_belongs_to_the_trace_and_is_another_span() {
        let parent = parse(&format!("00-{TRACE}-{SPAN}-00")).unwrap();
        let child = parent.child(Sampling::default());
        assert_eq!((child.trace_id, child.is_sampled), (parent.trace_id, false));
        assert_ne!(child.span_id, parent.span_id);
        assert_ne!(TraceParent::begin(Sampling::default()).trace_id, parent.trace_id);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_again(trace_id in 1..=u128::MAX, span_id in 1..=u64::MAX, is_sampled: bool) {
            let parent = TraceParent::new(trace_id, span_id, is_sampled).unwrap();
            prop_assert_eq!(parse(&parent.to_string()), Some(parent));
        }

        #[test]
        fn bytes_of_chance_are_no_parent_and_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            prop_assert!(TraceParent::parse(&bytes).is_none(), "chance does not hit 46 digits");
        }

        #[test]
        fn one_wrong_character_is_one_too_many(at in 0..CHARS, with: u8) {
            let mut text = format!("00-{TRACE}-{SPAN}-01").into_bytes();
            text[at] = with;
            if let Some(parent) = TraceParent::parse(&text) {
                // Still hexadecimal, and another name or version; flags that are not known are dropped.
                let written = parent.to_string().into_bytes();
                prop_assert_eq!(&written[2..53], &text[2..53]);
                prop_assert!(with.is_ascii_digit() || (b'a'..=b'f').contains(&with) || text[at] == b'-');
            }
        }
    }
}
