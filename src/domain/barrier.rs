//! Barriers: complete when all participants have arrived; then exactly one notification is sent.

use super::id::{BarrierId, Participant, WebhookUrl};
use super::sale::{BadField, RETENTION_SECONDS_MAX};
use super::time::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de};
use std::collections::HashSet;
use std::fmt;
use utoipa::ToSchema;

/// Most participants of a barrier.
pub const PARTICIPANTS_MAX: u64 = 100_000;
/// Most names of one call.
pub const NAMES_MAX: usize = 1_000;
/// Longest deadline: 30 days.
pub const DEADLINE_SECONDS_MAX: u64 = 30 * 86_400;
/// Deadline and retention unless the caller says otherwise.
const SECONDS_DEFAULT: u64 = 86_400;
/// Most targets of `notify`.
pub const NOTIFY_MAX: usize = 8;
/// Longest note, in characters.
pub const NOTE_CHARS_MAX: usize = 256;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum $name {
            $($(#[$of])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)* }
            }

            /// What this word stands for.
            pub fn from_word(word: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.as_str() == word)
            }
        }
    };
}

words!(
    /// What a barrier keeps.
    BarrierMode {
        /// Who has arrived, when and how, and who is missing.
        Members "members",
        /// Numbers, and a mark of each arrival.
        Count "count",
    }
);

words!(
    /// Whether a barrier waits, or how it ended.
    BarrierStatus {
        /// It waits.
        Open "open",
        /// All have arrived.
        Completed "completed",
        /// More have failed than are tolerated.
        Failed "failed",
        /// The deadline came first.
        TimedOut "timed_out",
        /// Somebody deleted it.
        Cancelled "cancelled",
    }
);

words!(
    /// How a participant arrives.
    ArrivalOutcome {
        /// Its part is done.
        Completed "completed",
        /// It could not do its part.
        Failed "failed",
    }
);

words!(
    /// Which participants a list shows.
    ParticipantFilter {
        /// Declared, and not there yet; by name.
        Missing "missing",
        /// Those that are there; by time.
        Arrived "arrived",
        /// Of these, the failed ones.
        Failed "failed",
    }
);

/// Names of participants: 1 to 1,000, each once.
#[derive(Debug, Clone, PartialEq, Eq, ToSchema)]
#[schema(value_type = Vec<Participant>, min_items = 1, max_items = 1000)]
pub struct Names(Vec<Participant>);

impl Names {
    /// An error says what is wrong.
    pub fn new(names: Vec<Participant>) -> Result<Self, &'static str> {
        if names.is_empty() || names.len() > NAMES_MAX {
            return Err("must hold 1 to 1000 names");
        }
        let mut seen = HashSet::with_capacity(names.len());
        if names.iter().all(|name| seen.insert(name)) { Ok(Self(names)) } else { Err("must name each once") }
    }

    /// The names, in the caller's order.
    pub fn as_slice(&self) -> &[Participant] {
        &self.0
    }
}

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(Vec::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// What a participant says about its part: at most 256 characters.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, max_length = 256)]
pub struct Note(String);

impl Note {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Note {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        match text.chars().nth(NOTE_CHARS_MAX) {
            None => Ok(Self(text)),
            Some(_) => Err("must be at most 256 characters"),
        }
    }
}

impl fmt::Debug for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// One that hears of the barrier's end.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NotifyUrl {
    /// Where the message goes.
    pub url: WebhookUrl,
}

/// Body of PUT barrier.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct PutBarrier {
    /// Names of those to wait for. Without `expected` there are no others. Not in mode `count`.
    #[serde(default)]
    pub participants: Option<Names>,
    /// How many to wait for: those that are not named are admitted as they come. Without this and without names the
    /// barrier is not sealed: it waits for `seal`.
    #[schema(minimum = 1, maximum = 100000)]
    #[serde(default)]
    pub expected: Option<u64>,
    /// What is kept: default `members`.
    #[serde(default)]
    pub mode: Option<BarrierMode>,
    /// It times out so long after its creation: 1-2592000, default 86400.
    #[schema(minimum = 1, maximum = 2592000)]
    #[serde(default)]
    pub deadline_seconds: Option<u64>,
    /// It ends `failed` as soon as more than these have failed, and those that failed count as arrived; null: failures
    /// are recorded, and end nothing.
    #[schema(maximum = 100000)]
    #[serde(default)]
    pub tolerated_failures: Option<u64>,
    /// It is kept so long after its end: default 86400.
    #[schema(minimum = 1, maximum = 315360000)]
    #[serde(default)]
    pub retention_seconds: Option<u64>,
    /// Who is told of its end, whether or not a webhook is registered for it: at most 8.
    #[schema(max_items = 8)]
    #[serde(default)]
    pub notify: Option<Vec<NotifyUrl>>,
}

/// What a barrier waits for, complete and checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BarrierSpec {
    /// Names of those to wait for.
    pub participants: Vec<Participant>,
    /// How many to wait for; none: it is not sealed.
    pub expected: Option<u64>,
    /// What is kept.
    pub mode: BarrierMode,
    /// Until the deadline.
    pub deadline_seconds: u64,
    /// Failures that do not end it; none: no number of them does.
    pub tolerated_failures: Option<u64>,
    /// Kept so long after the end.
    pub retention_seconds: u64,
    /// Who is told.
    pub notify: Vec<WebhookUrl>,
}

impl PutBarrier {
    /// What it waits for, or the first field that is wrong.
    pub fn spec(self) -> Result<BarrierSpec, BadField> {
        let mode = self.mode.unwrap_or(BarrierMode::Members);
        let participants = self.participants.map_or(Vec::new(), |names| names.0);
        let named = participants.len() as u64;
        BadField::unless(
            mode == BarrierMode::Members || participants.is_empty(),
            "/participants",
            "cannot stand beside mode count, which keeps no names",
        )?;
        let legal = |expected| (1..=PARTICIPANTS_MAX).contains(&expected);
        BadField::unless(self.expected.is_none_or(legal), "/expected", "must be 1 to 100000")?;
        BadField::unless(
            self.expected.is_none_or(|expected| expected >= named),
            "/expected",
            "must be at least the number of names",
        )?;
        let expected = self.expected.or((named > 0).then_some(named));
        let deadline_seconds = self.deadline_seconds.unwrap_or(SECONDS_DEFAULT);
        check_deadline(deadline_seconds)?;
        BadField::unless(
            self.tolerated_failures.is_none_or(|failures| failures <= PARTICIPANTS_MAX),
            "/tolerated_failures",
            "must be 0 to 100000",
        )?;
        let retention_seconds = self.retention_seconds.unwrap_or(SECONDS_DEFAULT);
        BadField::unless(
            (1..=RETENTION_SECONDS_MAX).contains(&retention_seconds),
            "/retention_seconds",
            "must be 1 to 315360000",
        )?;
        let notify: Vec<WebhookUrl> =
            self.notify.unwrap_or_default().into_iter().map(|target| target.url).collect();
        let mut seen = HashSet::new();
        BadField::unless(
            notify.len() <= NOTIFY_MAX && notify.iter().all(|url| seen.insert(url)),
            "/notify",
            "must hold at most 8 URLs, each once",
        )?;
        let tolerated_failures = self.tolerated_failures;
        Ok(BarrierSpec {
            participants,
            expected,
            mode,
            deadline_seconds,
            tolerated_failures,
            retention_seconds,
            notify,
        })
    }
}

fn check_deadline(seconds: u64) -> Result<(), BadField> {
    let legal = (1..=DEADLINE_SECONDS_MAX).contains(&seconds);
    BadField::unless(legal, "/deadline_seconds", "must be 1 to 2592000")
}

/// Body of an arrival.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Arrive {
    /// Who arrives.
    pub participant: Participant,
    /// How: default `completed`.
    #[schema(required = false)]
    #[serde(default = "completed")]
    pub outcome: ArrivalOutcome,
    /// What to say about it; kept in mode `members`.
    #[serde(default)]
    pub note: Option<Note>,
}

fn completed() -> ArrivalOutcome {
    ArrivalOutcome::Completed
}

/// Body of a declaration: names still to come.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Declare {
    /// The names; those that are known already do no harm.
    pub participants: Names,
}

/// Body of a seal.
#[derive(Debug, Clone, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Seal {
    /// How many to wait for; null: those declared until now.
    #[schema(minimum = 1, maximum = 100000)]
    #[serde(default)]
    pub expected: Option<u64>,
}

impl Seal {
    /// Whether its number can be one.
    pub fn check(&self) -> Result<(), BadField> {
        let legal = |expected| (1..=PARTICIPANTS_MAX).contains(&expected);
        BadField::unless(self.expected.is_none_or(legal), "/expected", "must be 1 to 100000")
    }
}

/// Body of an extension.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendDeadline {
    /// The deadline is so far from now, unless it is later already: 1-2592000.
    #[schema(minimum = 1, maximum = 2592000)]
    pub deadline_seconds: u64,
}

impl ExtendDeadline {
    /// Whether it can be a deadline.
    pub fn check(&self) -> Result<(), BadField> {
        check_deadline(self.deadline_seconds)
    }
}

/// One that hears of the barrier's end, as answers show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct NotifyTarget {
    /// Where the message goes.
    pub url: WebhookUrl,
    /// What its messages are signed with; only in the answer to PUT, otherwise null.
    pub secret: Option<String>,
}

/// A barrier as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Barrier {
    /// Its name.
    pub barrier: BarrierId,
    /// Whether it waits, or how it ended.
    pub status: BarrierStatus,
    /// What it keeps.
    pub mode: BarrierMode,
    /// Whether it is settled how many it waits for.
    pub sealed: bool,
    /// How many it waits for; null until it is sealed.
    pub expected: Option<u64>,
    /// Participants that are known: named, or arrived.
    pub declared: u64,
    /// Participants that arrived `completed`.
    pub completed: u64,
    /// Participants that arrived `failed`.
    pub failed: u64,
    /// Failures that do not end it; null: no number of them does.
    pub tolerated_failures: Option<u64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// It times out then.
    pub deadline: Timestamp,
    /// When it ended; null while it waits.
    pub ended_at: Option<Timestamp>,
    /// It is kept so long after its end.
    pub retention_seconds: u64,
    /// Who is told of its end.
    pub notify: Vec<NotifyTarget>,
    /// The store's time when this was true.
    pub server_time: Timestamp,
}

/// What an arrival or a seal has done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BarrierProgress {
    /// The barrier.
    pub barrier: BarrierId,
    /// Whether it waits, or how it ended.
    pub status: BarrierStatus,
    /// Whether it was this very call that ended it: true for one call of a barrier, however often that is repeated.
    pub fired: bool,
    /// How many it waits for; null until it is sealed.
    pub expected: Option<u64>,
    /// Participants that are known.
    pub declared: u64,
    /// Participants that arrived `completed`.
    pub completed: u64,
    /// Participants that arrived `failed`.
    pub failed: u64,
    /// It times out then.
    pub deadline: Timestamp,
    /// When it ended; null while it waits.
    pub ended_at: Option<Timestamp>,
    /// The store's time.
    pub server_time: Timestamp,
}

impl BarrierProgress {
    /// Of a barrier as it is now.
    pub fn of(now: &Barrier, fired: bool) -> Self {
        Self {
            barrier: now.barrier.clone(),
            status: now.status,
            fired,
            expected: now.expected,
            declared: now.declared,
            completed: now.completed,
            failed: now.failed,
            deadline: now.deadline,
            ended_at: now.ended_at,
            server_time: now.server_time,
        }
    }
}

/// A participant of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BarrierParticipant {
    /// Its name.
    pub participant: Participant,
    /// How it arrived; null: it is missing.
    pub outcome: Option<ArrivalOutcome>,
    /// What it said.
    pub note: Option<Note>,
    /// When it arrived first.
    pub arrived_at: Option<Timestamp>,
}

/// A participant that failed, as events show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct FailedParticipant {
    /// Its name.
    pub participant: Participant,
    /// What it said.
    pub note: Option<Note>,
}

/// `data` of an event of a barrier.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct BarrierEnd {
    /// The barrier.
    pub barrier: BarrierId,
    /// How it ended.
    pub status: BarrierStatus,
    /// Its status before.
    pub previous_status: BarrierStatus,
    /// What it keeps.
    pub mode: BarrierMode,
    /// How many it waited for; null: it was never sealed.
    pub expected: Option<u64>,
    /// Participants that were known.
    pub declared: u64,
    /// Participants that arrived `completed`.
    pub completed: u64,
    /// Participants that arrived `failed`.
    pub failed: u64,
    /// Failures that would not have ended it.
    pub tolerated_failures: Option<u64>,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it would have timed out.
    pub deadline: Timestamp,
    /// When it ended.
    pub ended_at: Timestamp,
    /// The first 100 that failed.
    pub failed_participants: Vec<FailedParticipant>,
    /// The first 100 that were declared and had not arrived.
    pub missing: Vec<Participant>,
    /// Whether one of the two lists ends before all are named, as it does in mode `count`.
    pub truncated: bool,
    /// Where the missing ones are listed for as long as the barrier is kept; null in mode `count`.
    pub link: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> Result<BarrierSpec, String> {
        let put: PutBarrier = serde_json::from_str(json).map_err(|error| error.to_string())?;
        put.spec().map_err(|bad| bad.field)
    }

    #[test]
    fn names_are_the_number_unless_a_larger_one_is_given() {
        assert_eq!(spec("{}").unwrap().expected, None);
        assert_eq!(spec(r#"{"participants":["a","b"]}"#).unwrap().expected, Some(2));
        assert_eq!(spec(r#"{"participants":["a","b"],"expected":3}"#).unwrap().expected, Some(3));
        assert_eq!(spec(r#"{"expected":100000,"mode":"count"}"#).unwrap().expected, Some(100_000));
    }

    #[test]
    fn what_cannot_be_waited_for_names_its_field() {
        for (json, field) in [
            (r#"{"participants":["a","b"],"expected":1}"#, "/expected"),
            (r#"{"expected":0}"#, "/expected"),
            (r#"{"expected":100001}"#, "/expected"),
            (r#"{"participants":["a"],"mode":"count"}"#, "/participants"),
            (r#"{"deadline_seconds":0}"#, "/deadline_seconds"),
            (r#"{"deadline_seconds":2592001}"#, "/deadline_seconds"),
            (r#"{"retention_seconds":0}"#, "/retention_seconds"),
            (r#"{"tolerated_failures":100001}"#, "/tolerated_failures"),
            (r#"{"notify":[{"url":"http://a/"},{"url":"http://a/"}]}"#, "/notify"),
        ] {
            assert_eq!(spec(json), Err(field.to_owned()), "{json}");
        }
        for bad in [
            r#"{"participants":[]}"#,
            r#"{"participants":["a","a"]}"#,
            r#"{"participants":["a b"]}"#,
            r#"{"mode":"all"}"#,
            r#"{"notify":[{"url":"ftp://a/"}]}"#,
            r#"{"retention":1}"#,
        ] {
            assert!(serde_json::from_str::<PutBarrier>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn notes_are_counted_in_characters() {
        let arrive = |note: String| {
            serde_json::from_value::<Arrive>(serde_json::json!({"participant": "a", "note": note}))
        };
        assert_eq!(arrive("é\n".repeat(128)).unwrap().outcome, ArrivalOutcome::Completed);
        assert!(arrive("é".repeat(257)).is_err());
    }
}
