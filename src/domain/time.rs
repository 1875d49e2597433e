//! Time as the Redis server tells it: milliseconds since 1970, UTC.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use utoipa::ToSchema;

/// A moment, in milliseconds since 1970-01-01T00:00:00Z; RFC 3339 with milliseconds in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, ToSchema)]
#[schema(value_type = String, format = DateTime)]
pub struct Timestamp(i64);

/// 9999-12-31T00:00:00Z: far below 2^53, so Lua's doubles keep every millisecond.
const MS_MAX: i64 = 253_402_214_400_000;

impl Timestamp {
    /// The largest. In the store it says "never": the deadline of a part of an order under confirmation.
    pub const NEVER: Self = Self(MS_MAX);

    /// From milliseconds since 1970; `None` outside 1970..9999.
    pub fn from_ms(ms: i64) -> Option<Self> {
        (0..=MS_MAX).contains(&ms).then_some(Self(ms))
    }

    /// Milliseconds since 1970.
    pub fn as_ms(self) -> i64 {
        self.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(f, "{moment:.3}"),
            Err(_) => Err(fmt::Error),
        }
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let moment: jiff::Timestamp = text
            .parse()
            .map_err(|_| de::Error::custom("must be an RFC 3339 time such as 2026-11-30T18:00:00.000Z"))?;
        Self::from_ms(moment.as_millisecond())
            .ok_or_else(|| de::Error::custom("must lie in the years 1970-9999"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_any_offset_and_writes_utc_with_milliseconds() {
        let read: Timestamp = serde_json::from_str("\"2026-11-30T19:00:00+01:00\"").unwrap();
        assert_eq!(read.as_ms(), 1_796_061_600_000);
        assert_eq!(serde_json::to_string(&read).unwrap(), "\"2026-11-30T18:00:00.000Z\"");
        assert!(serde_json::from_str::<Timestamp>("\"tomorrow\"").is_err());
        assert!(serde_json::from_str::<Timestamp>("1796061600").is_err());
    }
}
