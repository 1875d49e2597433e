//! Deliveries: one event for one endpoint, and when it is tried again.

use super::time::Timestamp;
use serde::Serialize;
use std::str::FromStr;
use std::time::Duration;
use utoipa::ToSchema;
use uuid::Uuid;

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// It will be tried, again perhaps.
    Pending,
    /// The receiver has it.
    Delivered,
    /// Nobody tries any more.
    Dead,
}

impl DeliveryStatus {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Delivered => "delivered",
            Self::Dead => "dead",
        }
    }
}

impl FromStr for DeliveryStatus {
    type Err = ();
    fn from_str(word: &str) -> Result<Self, ()> {
        let all = [Self::Pending, Self::Delivered, Self::Dead];
        all.into_iter().find(|status| status.as_str() == word).ok_or(())
    }
}

/// One event for one endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Delivery {
    /// Id of the event, and `webhook-id` of its message.
    #[schema(value_type = String, format = "uuid")]
    pub id: Uuid,
    /// Type of the event.
    #[serde(rename = "type")]
    pub kind: String,
    /// Source of the event.
    pub source: String,
    /// What became of it.
    pub status: DeliveryStatus,
    /// Tries that have begun, since the last redelivery.
    pub attempts: u32,
    /// When it was queued.
    pub created_at: Timestamp,
    /// When it is tried next; while a try is under way, when the next one may follow if nothing is heard of it. Null once
    /// it has ended.
    pub next_attempt_at: Option<Timestamp>,
    /// When the receiver took it.
    pub delivered_at: Option<Timestamp>,
    /// HTTP status of the last answer; null if there was none.
    pub last_status: Option<u16>,
    /// What went wrong last, in a few words.
    pub last_error: Option<String>,
}

/// Pauses after the first try, the second, and so on; the last one again and again.
const RETRY_SECONDS: [u64; 9] = [5, 60, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000];
/// Tries end so long after the first.
pub const GIVE_UP_AFTER: Duration = Duration::from_secs(72 * 3_600);
/// A last try that would come this soon after the one before is not worth it.
const LAST_TRY_MIN: Duration = Duration::from_secs(3_600);
/// Pauses are so much longer or shorter, so that what failed together does not come back together.
const JITTER: f64 = 0.2;

/// How long to wait after `attempts` tries have failed, `age` after the delivery was queued; none: it is dead. `chance`,
/// from 0 to 1, spreads the pauses. The receiver may ask for a longer one.
pub fn retry_in(
    attempts: u32,
    age: Duration,
    chance: f64,
    retry_after: Option<Duration>,
) -> Option<Duration> {
    let place = usize::try_from(attempts.saturating_sub(1)).unwrap_or(usize::MAX);
    let pause = Duration::from_secs(RETRY_SECONDS[place.min(RETRY_SECONDS.len() - 1)]);
    let pause = pause.mul_f64(1.0 - JITTER + 2.0 * JITTER * chance);
    let left = GIVE_UP_AFTER.saturating_sub(age);
    // The last try stands at the very end.
    let pause = if pause > left && left >= LAST_TRY_MIN { left } else { pause };
    let pause = pause.max(retry_after.unwrap_or_default());
    (pause <= left).then_some(pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn pauses_grow_and_the_last_try_stands_at_the_end_of_three_days() {
        let mut age = Duration::ZERO;
        let mut pauses = Vec::new();
        while let Some(pause) = retry_in(pauses.len() as u32 + 1, age, 0.5, None) {
            age += pause;
            pauses.push(pause.as_secs());
        }
        assert_eq!(pauses, [5, 60, 300, 1_800, 7_200, 18_000, 36_000, 50_400, 72_000, 72_000]);
        for chance in [0.0, 1.0] {
            let mut age = Duration::ZERO;
            let mut tries = 1;
            while let Some(pause) = retry_in(tries, age, chance, None) {
                age += pause;
                tries += 1;
            }
            assert_eq!(age, GIVE_UP_AFTER, "{tries} tries");
        }
    }

    #[test]
    fn pauses_are_spread_by_a_fifth() {
        assert_eq!(retry_in(2, HOUR, 0.0, None), Some(Duration::from_secs(48)));
        assert_eq!(retry_in(2, HOUR, 1.0, None), Some(Duration::from_secs(72)));
    }

    #[test]
    fn the_receiver_may_ask_for_more_time_but_not_for_less() {
        let after = |seconds| Some(Duration::from_secs(seconds));
        assert_eq!(retry_in(1, HOUR, 0.5, after(90)), after(90));
        assert_eq!(retry_in(3, HOUR, 0.5, after(1)), after(300));
        assert_eq!(retry_in(1, 71 * HOUR, 0.5, after(3_601)), None);
        assert_eq!(retry_in(1, HOUR, 0.5, after(u64::MAX)), None);
    }

    #[test]
    fn a_delivery_that_lay_for_three_days_is_dead_when_it_fails() {
        assert_eq!(retry_in(1, GIVE_UP_AFTER + HOUR, 0.0, None), None);
    }
}
