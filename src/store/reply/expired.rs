//! Holds that a call has expired, whichever verb it was.

use crate::domain::Timestamp;

/// A hold that the call behind an answer found overdue, and gave back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewlyExpired {
    /// How long after its deadline.
    pub late_by: std::time::Duration,
    /// Its units.
    pub units: u64,
}

/// Every answer about a hold that the call itself has expired says that it was `held` before.
pub fn newly_expired(now: Timestamp, answer: &str) -> Option<NewlyExpired> {
    let mut fields = answer.split('\n');
    let details = match fields.next()? {
        "expired" | "hold_expired" | "not_confirmed" | "stale_fence" => 0,
        "retake_sold_out" => 1,
        "confirm_expired" => 2,
        _ => return None,
    };
    if fields.nth(details)? != "held" {
        return None;
    }
    let mut record = fields.skip(1); // its id
    if record.next()? != "expired" {
        return None;
    }
    let deadline: i64 = record.next()?.parse().ok()?;
    let units = record.nth(12)?.split(',').filter_map(|line| line.split_once('=')?.1.parse().ok());
    let units = units.fold(0, u64::saturating_add);
    let late_ms = u64::try_from(now.as_ms().saturating_sub(deadline)).unwrap_or(0);
    Some(NewlyExpired { late_by: std::time::Duration::from_millis(late_ms), units })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expiry_is_counted_once_and_with_its_units() {
        let record = "expired\n1000\n1\n1000\n9\na\n\n\n\n\n\n\nfingerprint\n\na=2,b=3\nu\n\n";
        let now = Timestamp::from_ms(1500).unwrap();
        let expected = NewlyExpired { late_by: std::time::Duration::from_millis(500), units: 5 };
        for head in [
            "expired\nheld",
            "hold_expired\nheld",
            "confirm_expired\n1\n\nheld",
            "retake_sold_out\na=1,0,0\nheld",
            "stale_fence\nheld",
        ] {
            assert_eq!(newly_expired(now, &format!("{head}\nid\n{record}")), Some(expected), "{head}");
        }
        for head in
            ["expired\n", "hold_expired\n", "confirm_expired\n1\n\n", "stale_fence\n", "released\nheld"]
        {
            assert_eq!(newly_expired(now, &format!("{head}\nid\n{record}")), None, "{head}");
        }
        assert_eq!(newly_expired(now, "stale_fence"), None);
        let corrupt =
            record.replacen("1000", &i64::MIN.to_string(), 1).replace("a=2", &format!("a={}", u64::MAX));
        let read = newly_expired(now, &format!("expired\nheld\nid\n{corrupt}")).unwrap();
        assert_eq!((read.late_by.as_millis(), read.units), (i64::MAX as u128, u64::MAX));
    }
}
