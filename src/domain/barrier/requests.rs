//! What is asked of barriers.

use super::{ArrivalOutcome, BarrierMode};
use crate::domain::id::{Participant, WebhookUrl};
use crate::domain::sale::{BadField, RETENTION_SECONDS_MAX};
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
