//! Who calls, and what they may do.

use super::id::{BadText, KeyName, SaleId, SalePattern};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What an API key is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// Checkouts: reservations, and what there is to read.
    Storefront,
    /// Those who run the sales: everything but arrivals at barriers.
    Operator,
    /// Participants of barriers.
    Barrier,
    /// Prometheus.
    Metrics,
}

impl Scope {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Storefront, Self::Operator, Self::Barrier, Self::Metrics];

    /// The word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Storefront => "storefront",
            Self::Operator => "operator",
            Self::Barrier => "barrier",
            Self::Metrics => "metrics",
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Scope {
    type Err = BadText;
    fn from_str(text: &str) -> Result<Self, BadText> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or(BadText("must be storefront, operator, barrier or metrics"))
    }
}

/// Who calls: the name of an API key, on which ids depend, and the sales that it may see. Where there are no keys all
/// callers are one, without a name. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Caller(Option<Arc<Named>>);

#[derive(Debug)]
struct Named {
    name: KeyName,
    /// Without it, all sales.
    sales: Option<Vec<SalePattern>>,
}

impl Caller {
    /// The holder of a key; `sales` limits it to those that match one of the patterns.
    pub fn new(name: KeyName, sales: Option<Vec<SalePattern>>) -> Self {
        Self(Some(Arc::new(Named { name, sales })))
    }

    /// Empty where there are no keys.
    pub fn name(&self) -> &str {
        self.0.as_ref().map_or("", |named| named.name.as_str())
    }

    fn patterns(&self) -> Option<&[SalePattern]> {
        self.0.as_ref()?.sales.as_deref()
    }

    /// Whether a sale exists for this caller.
    pub fn may_see(&self, sale: &SaleId) -> bool {
        self.patterns().is_none_or(|patterns| patterns.iter().any(|pattern| pattern.matches(sale)))
    }

    /// Whether every sale does.
    pub fn may_see_all(&self) -> bool {
        self.patterns().is_none()
    }
}

impl SalePattern {
    /// Whether the sale is one of these.
    pub fn matches(&self, sale: &SaleId) -> bool {
        let mut pieces = self.as_str().split('*');
        let beginning = pieces.next().unwrap_or_default();
        let Some(mut rest) = sale.as_str().strip_prefix(beginning) else { return false };
        let Some(end) = pieces.next_back() else { return rest.is_empty() };
        // Taking each piece as early as it comes leaves the most for those after it.
        for piece in pieces {
            match rest.split_once(piece) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        rest.ends_with(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_characters_or_none() {
        let matches = |pattern: &str, sale: &str| {
            pattern.parse::<SalePattern>().unwrap().matches(&sale.parse().unwrap())
        };
        for (pattern, sale) in [
            ("drop-*", "drop-1"),
            ("drop-*", "drop-"),
            ("*", "drop"),
            ("**", "drop"),
            ("drop", "drop"),
            ("*-eu", "drop-eu"),
            ("drop-*-eu", "drop-1-eu"),
            ("a*b*c", "a-b-bb-cc"),
            ("a*a", "aa"),
            ("*ab*ab", "abab"),
        ] {
            assert!(matches(pattern, sale), "{pattern} {sale}");
        }
        for (pattern, sale) in [
            ("drop-*", "drop"),
            ("drop-*", "Drop-1"),
            ("drop-*", "a-drop-1"),
            ("drop", "drop-1"),
            ("a*a", "a"),
            ("*ab*ab", "ab"),
            ("*b", "ba"),
            ("drop.1", "drop-1"),
            ("a*b*c", "a-c-b"),
        ] {
            assert!(!matches(pattern, sale), "{pattern} {sale}");
        }
        for bad in ["", "drop?", "drop [1]", "dr\u{f6}p", &"*".repeat(65)] {
            assert!(bad.parse::<SalePattern>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_caller_sees_all_sales_or_those_of_its_patterns() {
        let (drop, shop) = ("drop-1".parse().unwrap(), "shop".parse().unwrap());
        let caller = |sales: Option<&[&str]>| {
            let patterns = sales.map(|all| all.iter().map(|one| one.parse().unwrap()).collect());
            Caller::new("k".parse().unwrap(), patterns)
        };
        for all in [Caller::default(), caller(None)] {
            assert!(all.may_see_all() && all.may_see(&drop) && all.may_see(&shop));
        }
        let some = caller(Some(&["x*", "drop-*"]));
        assert!(!some.may_see_all() && some.may_see(&drop) && !some.may_see(&shop));
    }

    #[test]
    fn scopes_are_words() {
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(scope));
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
        }
        assert!("Operator".parse::<Scope>().is_err());
    }
}
