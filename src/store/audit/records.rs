//! Walking over the records of a sale.

use crate::domain::Timestamp;
use crate::store::keys::SaleKeys;
use crate::store::{Store, StoreError};

/// Where an id stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// Holds by deadline.
    Due,
    /// Ended ones.
    Done,
    /// Parts of orders under confirmation; they stand in `due`, too.
    Pinned,
}

impl Place {
    fn name(self) -> &'static str {
        match self {
            Self::Due => "due",
            Self::Done => "done",
            Self::Pinned => "pinned",
        }
    }
}

/// What a record says of one SKU.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub sku: String,
    pub held: u64,
    pub sold: u64,
}

/// What the audit reads of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub is_held: bool,
    pub expires_at: String,
    /// Bucket of the buyer, and what was counted for him.
    pub counted: String,
    pub buyer: String,
    pub lines: Vec<Line>,
}

impl Record {
    /// Reads the 18 fields of a record; none when it is corrupt.
    fn read(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split('\n').collect();
        let &[status, expires_at, .., _, _, _, _, _, _, _] = &fields[..] else { return None };
        if fields.len() != 18 || !["held", "confirmed", "released", "expired", "returned"].contains(&status) {
            return None;
        }
        let (is_held, is_sold) = (status == "held", status == "confirmed" || status == "returned");
        let mut confirmed = fields[9].split(',');
        let mut returned = fields[10].split(',');
        let mut lines = Vec::new();
        for line in fields[14].split(',') {
            let (sku, quantity) = line.split_once('=')?;
            let quantity: u64 = quantity.parse().ok()?;
            let confirmed: u64 = if is_sold { confirmed.next()?.parse().ok()? } else { 0 };
            let returned: u64 = match returned.next() {
                Some(units) if is_sold && !units.is_empty() => units.parse().ok()?,
                _ => 0,
            };
            let sold = confirmed.checked_sub(returned)?;
            lines.push(Line { sku: sku.to_owned(), held: if is_held { quantity } else { 0 }, sold });
        }
        expires_at.parse::<u64>().ok()?;
        Some(Self {
            is_held,
            expires_at: expires_at.to_owned(),
            counted: fields[5].to_owned(),
            buyer: fields[15].to_owned(),
            lines,
        })
    }

    /// Its score in `due`, while it is held.
    fn due_score(&self) -> &str {
        if self.is_pinned() { "inf" } else { &self.expires_at }
    }

    /// Whether it is held without a deadline.
    fn is_pinned(&self) -> bool {
        self.is_held && self.expires_at == Timestamp::NEVER.as_ms().to_string()
    }

    /// Whether anything of it is counted for its buyer.
    pub(super) fn counts_for_buyer(&self) -> bool {
        self.counted.len() > 1
    }
}

/// An id, where it stands, and its record, all of one moment.
#[derive(Debug)]
pub(super) struct Seen {
    pub id: String,
    due: Option<String>,
    done: Option<String>,
    pinned: Option<String>,
    is_there: bool,
    /// None where there is none, or a corrupt one.
    pub record: Option<Record>,
}

impl Seen {
    fn read(id: String, [due, done, pinned, record]: &[String; 4]) -> Self {
        let place = |score: &String| (!score.is_empty()).then(|| score.clone());
        Self {
            id,
            due: place(due),
            done: place(done),
            pinned: place(pinned),
            is_there: !record.is_empty(),
            record: Record::read(record),
        }
    }

    /// What is wrong with its place, if anything is.
    pub(super) fn misplaced(&self) -> Option<&'static str> {
        match (&self.due, &self.done, &self.record) {
            // It was archived, or became an orphan, after it was listed.
            (None, None, _) if self.pinned.is_none() => None,
            (None, None, _) => Some("in pinned alone"),
            (Some(_), Some(_), _) => Some("in due and in done"),
            (_, _, None) if !self.is_there => Some("no record"),
            (_, _, None) => Some("record is corrupt"),
            (Some(_), None, Some(record)) if !record.is_held => Some("ended, but in due"),
            (Some(score), None, Some(record)) if score != record.due_score() => {
                Some("in due at another time than its deadline")
            }
            (None, Some(_), Some(record)) if record.is_held => Some("held, but in done"),
            (_, _, Some(record)) => match (record.is_pinned(), self.pinned.is_some()) {
                (true, false) => Some("held without a deadline, but not in pinned"),
                (false, true) => Some("in pinned, but not held without a deadline"),
                _ => None,
            },
        }
    }

    /// Whether the walk over `place` is the one that counts it: each record counts once.
    pub(super) fn counts_in(&self, place: Place) -> bool {
        match place {
            Place::Due => self.due.is_some() && self.done.is_none(),
            Place::Done => self.done.is_some(),
            Place::Pinned => false,
        }
    }
}

impl Store {
    /// Shows every id of a place that stands there all the time, once; each page is of one moment.
    pub(super) async fn walk(
        &self,
        keys: &SaleKeys,
        place: Place,
        mut show: impl FnMut(&Seen),
    ) -> Result<(), StoreError> {
        let key = match place {
            Place::Due => keys.due(),
            Place::Done => keys.done(),
            Place::Pinned => keys.pinned(),
        };
        let (mut score, mut id, page) = (String::new(), String::new(), self.audit_page());
        loop {
            let begun = std::time::Instant::now();
            let list = &self.scripts().list;
            let mut cmd = list.call(1);
            cmd.arg(key).arg(&score).arg(&id).arg(page);
            let listed = self.call(list, &cmd).await.map_err(|error| match error {
                StoreError::Corrupt(_) => StoreError::Corrupt(place.name().into()),
                error => error,
            })?;
            let ids: Vec<&String> = listed.iter().step_by(2).collect();
            let inspect = &self.scripts().inspect;
            let mut cmd = inspect.call(3 + ids.len());
            cmd.arg(keys.due()).arg(keys.done()).arg(keys.pinned());
            for id in &ids {
                cmd.arg(keys.record(id));
            }
            let texts = self.call(inspect, &cmd).await?;
            let (views, rest) = texts.as_chunks::<4>();
            if views.len() != ids.len() || !rest.is_empty() {
                return Err(StoreError::Reply("as many records as ids were expected".into()));
            }
            for (id, view) in ids.into_iter().zip(views) {
                show(&Seen::read(id.clone(), view));
            }
            self.audit_rest(begun).await;
            match &listed[..] {
                [.., last, last_score] if listed.len() == 2 * page => {
                    (score, id) = (last_score.clone(), last.clone());
                }
                _ => return Ok(()),
            }
        }
    }
}
