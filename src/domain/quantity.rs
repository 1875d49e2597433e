//! How many units: of one line, of a cart, of a sale.

use super::id::Sku;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Most units of one SKU in a cart.
pub const QUANTITY_MAX: u64 = 1_000_000;
/// Most lines of a cart.
pub const LINES_MAX: usize = 100;
/// Most units of a sale.
pub const SALE_UNITS_MAX: u64 = 1_000_000_000_000;

/// Units of one SKU in a cart: 1..=1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, ToSchema)]
#[serde(transparent)]
#[schema(value_type = u64, minimum = 1, maximum = 1_000_000)]
pub struct Quantity(u64);

impl Quantity {
    /// `None` unless 1..=1,000,000.
    pub fn new(units: u64) -> Option<Self> {
        (1..=QUANTITY_MAX).contains(&units).then_some(Self(units))
    }

    /// The number of units.
    pub fn units(self) -> u64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let units = u64::deserialize(deserializer)?;
        Self::new(units).ok_or_else(|| de::Error::custom("must be an integer from 1 to 1000000"))
    }
}

/// Lines of a cart: at least one, each SKU once (lines of one SKU are summed), sorted by SKU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines(Vec<(Sku, u64)>);

/// One line as it stands in a request.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// What is wanted.
    pub sku: Sku,
    /// How many of it.
    pub quantity: Quantity,
}

impl Lines {
    /// Sums the lines of each SKU; an error says what is wrong.
    pub fn new(lines: Vec<Line>) -> Result<Self, &'static str> {
        if lines.is_empty() || lines.len() > LINES_MAX {
            return Err("must hold 1 to 100 lines");
        }
        if lines.len() == 1 {
            return Ok(Self(lines.into_iter().map(|line| (line.sku, line.quantity.units())).collect()));
        }
        let mut summed = BTreeMap::new();
        for line in lines {
            *summed.entry(line.sku).or_insert(0u64) += line.quantity.units();
        }
        if summed.values().any(|&units| units > QUANTITY_MAX) {
            return Err("the lines of one SKU add up to more than 1000000");
        }
        Ok(Self(summed.into_iter().collect()))
    }

    /// SKU and units of each line.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&Sku, u64)> {
        self.0.iter().map(|(sku, units)| (sku, *units))
    }

    /// How many lines.
    pub fn count(&self) -> usize {
        self.0.len()
    }
}

impl<'de> Deserialize<'de> for Lines {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Vec::<Line>::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(json: &str) -> Result<Lines, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn lines_of_one_sku_are_summed_and_sorted() {
        let cart =
            lines(r#"[{"sku":"b","quantity":1},{"sku":"a","quantity":2},{"sku":"b","quantity":3}]"#).unwrap();
        let read: Vec<_> = cart.iter().map(|(sku, units)| (sku.as_str().to_owned(), units)).collect();
        assert_eq!(read, [("a".to_owned(), 2), ("b".to_owned(), 4)]);
    }

    #[test]
    fn quantities_are_small_positive_integers() {
        for bad in [
            "0",
            "-1",
            "-5",
            "1.5",
            "1.0",
            "\"1\"",
            "1e3",
            "null",
            "1000001",
            "2147483648",
            "9007199254740993",
            "9223372036854775808",
            "1e400",
            "NaN",
            "true",
            "[]",
        ] {
            assert!(lines(&format!(r#"[{{"sku":"a","quantity":{bad}}}]"#)).is_err(), "{bad}");
        }
        assert!(lines("[]").is_err());
        assert!(lines(r#"[{"sku":"a","quantity":1000000},{"sku":"a","quantity":1}]"#).is_err());
        assert!(lines(r#"[{"sku":"a","quantity":1,"quantity":2}]"#).is_err(), "duplicate JSON key");
        assert!(lines(r#"[{"sku":"a","quantity":1,"price":2}]"#).is_err(), "unknown field");
    }
}
