//! Rules of a sale: complete, as a patch, and which state of them a change wants to meet.

use super::sale::{
    BadField, ENDED_RETENTION_SECONDS_DEFAULT, HOLD_SECONDS_MAX, LIMIT_MESSAGE, PutSale,
    RETENTION_SECONDS_MAX, Skus, limit_is_legal,
};
use super::time::Timestamp;
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

/// Rules of a sale, complete and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SaleRules {
    /// Takes from then on.
    pub opens_at: Option<Timestamp>,
    /// And until then.
    pub closes_at: Option<Timestamp>,
    /// Seconds a hold lasts by default.
    pub hold_seconds: u64,
    /// Longest hold in seconds.
    pub hold_seconds_max: u64,
    /// Units a buyer.
    pub buyer_limit: Option<u64>,
    /// Open holds a buyer.
    pub buyer_holds_max: Option<u64>,
    /// Retention of confirmed reservations.
    pub confirmed_retention_seconds: u64,
    /// Retention of the others.
    pub ended_retention_seconds: u64,
}

impl SaleRules {
    /// The first rule that is wrong by itself or beside others.
    pub(super) fn check(&self) -> Result<(), BadField> {
        let hold = 1..=HOLD_SECONDS_MAX;
        let retention = ENDED_RETENTION_SECONDS_DEFAULT..=RETENTION_SECONDS_MAX;
        let retention_message = "must be 86400 to 315360000 seconds";
        let window = match (self.opens_at, self.closes_at) {
            (Some(opens_at), Some(closes_at)) => opens_at < closes_at,
            _ => true,
        };
        BadField::unless(hold.contains(&self.hold_seconds), "/hold_seconds", "must be 1 to 86400")?;
        BadField::unless(
            (self.hold_seconds..=HOLD_SECONDS_MAX).contains(&self.hold_seconds_max),
            "/hold_seconds_max",
            "must be at least hold_seconds and at most 86400",
        )?;
        BadField::unless(limit_is_legal(self.buyer_limit), "/buyer_limit", LIMIT_MESSAGE)?;
        BadField::unless(limit_is_legal(self.buyer_holds_max), "/buyer_holds_max", LIMIT_MESSAGE)?;
        BadField::unless(
            retention.contains(&self.confirmed_retention_seconds),
            "/confirmed_retention_seconds",
            retention_message,
        )?;
        BadField::unless(
            retention.contains(&self.ended_retention_seconds),
            "/ended_retention_seconds",
            retention_message,
        )?;
        BadField::unless(window, "/closes_at", "must be later than opens_at")
    }
}

/// Which state of the sale a change may meet (`If-Match`, `If-None-Match`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expect {
    /// Any, or none.
    Anything,
    /// `If-None-Match: *`: the sale must not exist.
    Absent,
    /// `If-Match: *`: the sale must exist.
    Present,
    /// `If-Match`: one of these ETags, each `<generation>-<version>`.
    Etags(Vec<String>),
}

impl Expect {
    /// Whether a sale with this ETag, or none, is what is expected.
    pub fn is_met(&self, etag: Option<&str>) -> bool {
        match self {
            Self::Anything => true,
            Self::Absent => etag.is_none(),
            Self::Present => etag.is_some(),
            Self::Etags(tags) => etag.is_some_and(|etag| tags.iter().any(|tag| tag == etag)),
        }
    }
}

/// Body of PATCH sale, a merge patch (RFC 7396): a rule that is left out stays as it is, null returns it to its
/// default. Stock is no rule: it has calls of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PatchSale {
    /// Reservations are taken from then on; null: at once.
    #[schema(value_type = Option<Timestamp>)]
    #[serde(default, deserialize_with = "given")]
    pub opens_at: Option<Option<Timestamp>>,
    /// And until then; null: for ever.
    #[schema(value_type = Option<Timestamp>)]
    #[serde(default, deserialize_with = "given")]
    pub closes_at: Option<Option<Timestamp>>,
    /// Seconds a hold lasts unless the request says otherwise; null: 600.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 86400)]
    #[serde(default, deserialize_with = "given")]
    pub hold_seconds: Option<Option<u64>>,
    /// Longest hold, extensions included; null: the larger of 3600 and `hold_seconds`.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 86400)]
    #[serde(default, deserialize_with = "given")]
    pub hold_seconds_max: Option<Option<u64>>,
    /// Most units of the sale a buyer may have held and bought; null: no limit.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 1000000)]
    #[serde(default, deserialize_with = "given")]
    pub buyer_limit: Option<Option<u64>>,
    /// Most open holds of a buyer; null: no limit.
    #[schema(value_type = Option<u64>, minimum = 1, maximum = 1000000)]
    #[serde(default, deserialize_with = "given")]
    pub buyer_holds_max: Option<Option<u64>>,
    /// Records of confirmed reservations are kept so long; null: 30 days.
    #[schema(value_type = Option<u64>, minimum = 86400, maximum = 315360000)]
    #[serde(default, deserialize_with = "given")]
    pub confirmed_retention_seconds: Option<Option<u64>>,
    /// Records of other ended reservations are kept so long; null: 86400.
    #[schema(value_type = Option<u64>, minimum = 86400, maximum = 315360000)]
    #[serde(default, deserialize_with = "given")]
    pub ended_retention_seconds: Option<Option<u64>>,
}

/// A field that is there, null or not: serde takes null for a field that is left out.
pub(super) fn given<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

impl PatchSale {
    /// The rules after this patch, or the first field that is then wrong.
    pub fn merge(&self, rules: &SaleRules) -> Result<SaleRules, BadField> {
        let merged = PutSale {
            opens_at: self.opens_at.unwrap_or(rules.opens_at),
            closes_at: self.closes_at.unwrap_or(rules.closes_at),
            hold_seconds: self.hold_seconds.unwrap_or(Some(rules.hold_seconds)),
            hold_seconds_max: self.hold_seconds_max.unwrap_or(Some(rules.hold_seconds_max)),
            buyer_limit: self.buyer_limit.unwrap_or(rules.buyer_limit),
            buyer_holds_max: self.buyer_holds_max.unwrap_or(rules.buyer_holds_max),
            confirmed_retention_seconds: self
                .confirmed_retention_seconds
                .unwrap_or(Some(rules.confirmed_retention_seconds)),
            ended_retention_seconds: self
                .ended_retention_seconds
                .unwrap_or(Some(rules.ended_retention_seconds)),
            stock: Skus::default(),
        };
        merged.rules()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patched(rules: &SaleRules, patch: &str) -> Result<SaleRules, String> {
        let patch: PatchSale = serde_json::from_str(patch).map_err(|error| error.to_string())?;
        patch.merge(rules).map_err(|bad| bad.field)
    }

    #[test]
    fn a_patch_changes_what_it_names_and_null_is_the_default() {
        let put = PutSale { hold_seconds: Some(5000), buyer_limit: Some(3), ..PutSale::default() };
        let rules = put.rules().unwrap();
        assert_eq!(patched(&rules, "{}"), Ok(rules.clone()));
        let one = patched(&rules, r#"{"buyer_holds_max": 2}"#);
        assert_eq!(one, Ok(SaleRules { buyer_holds_max: Some(2), ..rules.clone() }));
        let none = patched(&rules, r#"{"buyer_limit": null, "hold_seconds_max": null}"#);
        assert_eq!(none, Ok(SaleRules { buyer_limit: None, ..rules.clone() }));
        let back = patched(&rules, r#"{"hold_seconds": null}"#);
        assert_eq!(back, Ok(SaleRules { hold_seconds: 600, ..rules.clone() }));
        // The longest hold is a rule of its own: it does not move along.
        assert_eq!(patched(&rules, r#"{"hold_seconds": 5001}"#), Err("/hold_seconds_max".into()));
        assert!(patched(&rules, r#"{"hold_seconds": 5001, "hold_seconds_max": null}"#).is_ok());
        assert!(patched(&rules, r#"{"stock": {}}"#).is_err());
    }

    #[test]
    fn an_expectation_is_met_by_one_of_its_tags() {
        let tags = Expect::Etags(vec!["a-1".into(), "a-2".into()]);
        assert!(tags.is_met(Some("a-2")) && !tags.is_met(Some("a-3")) && !tags.is_met(None));
        assert!(Expect::Present.is_met(Some("a-1")) && !Expect::Present.is_met(None));
        assert!(Expect::Absent.is_met(None) && !Expect::Absent.is_met(Some("a-1")));
    }
}
