//! How often a caller may call.

use std::num::NonZeroU32;
use std::str::FromStr;

const REQUESTS_MAX: u32 = 1_000_000;
const SECONDS_MAX: u32 = 86_400;

/// So many requests in so many seconds: `100` or `100/10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// As many may come at once.
    pub requests: NonZeroU32,
    /// A caller who has sent them all may send as many again after these; one by one, evenly spread.
    pub seconds: NonZeroU32,
}

impl FromStr for Rate {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (requests, seconds) = text.split_once('/').unwrap_or((text, "1"));
        let rate = number(requests, REQUESTS_MAX).zip(number(seconds, SECONDS_MAX));
        let (requests, seconds) = rate.ok_or(
            "must be requests a second, or requests and seconds such as 100/10: 1-1000000 requests, 1-86400 seconds",
        )?;
        Ok(Self { requests, seconds })
    }
}

fn number(text: &str, max: u32) -> Option<NonZeroU32> {
    // `parse` takes a sign.
    let digits = text.bytes().all(|b| b.is_ascii_digit()).then_some(text)?;
    digits.parse().ok().filter(|number: &NonZeroU32| number.get() <= max)
}
