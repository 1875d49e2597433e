//! Lists: the barriers of all buckets by name, and the participants of one.

use super::Bucket;
use crate::domain::page::PAGE_LIMIT_MAX;
use crate::domain::*;
use crate::store::keys::{BARRIER_BUCKETS, barrier_bucket};
use crate::store::{Decided, Store, StoreError, reply, stock};
use redis::Cmd;
use std::collections::HashMap;

/// Which barriers a list shows.
#[derive(Debug, Clone, Default)]
pub struct BarrierFilter {
    /// Those of this status.
    pub status: Option<BarrierStatus>,
    /// Those whose names begin so.
    pub prefix: String,
}

impl Store {
    /// A page of barriers by name. At most 500 are looked at: a page may be short, but then has a `next`.
    pub async fn barriers(
        &self,
        filter: &BarrierFilter,
        page: &PageRequest,
    ) -> Result<Page<Barrier>, StoreError> {
        let looked_at = if filter.status.is_some() { PAGE_LIMIT_MAX } else { page.limit };
        let names = self.barrier_names(&filter.prefix, page.after.as_deref(), looked_at).await?;
        let mut found = self.barriers_named(&names).await?;
        let (mut items, mut last) = (Vec::new(), None);
        for name in &names {
            if items.len() == page.limit {
                break;
            }
            last = Some(name);
            let is_wanted = |barrier: &Barrier| filter.status.is_none_or(|status| status == barrier.status);
            items.extend(found.remove(name).filter(is_wanted));
        }
        let is_more = names.len() == looked_at || last != names.last();
        Ok(Page { items, next: last.filter(|_| is_more).map(ToString::to_string) })
    }

    /// The first names behind a cursor, over all buckets.
    async fn barrier_names(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<BarrierId>, StoreError> {
        let from = match after {
            Some(after) if after >= prefix => format!("({after}"),
            _ if prefix.is_empty() => "-".to_owned(),
            _ => format!("[{prefix}"),
        };
        // Names are ASCII: nothing that begins so comes after this byte.
        let to = if prefix.is_empty() { b"+".to_vec() } else { [b"[", prefix.as_bytes(), b"\xff"].concat() };
        let ask = |bucket: &std::sync::Arc<Bucket>| {
            let mut cmd = redis::cmd("ZRANGE");
            cmd.arg(&bucket.keys.index).arg(&from).arg(&to).arg("BYLEX").arg("LIMIT").arg(0).arg(limit);
            cmd
        };
        let asked: Vec<Cmd> = self.buckets.iter().map(ask).collect();
        let mut names = Vec::new();
        for answer in self.committer.pool.query_all(&asked).await {
            names.extend(reply::texts(self.note(answer)?)?);
        }
        names.sort_unstable();
        names.truncate(limit);
        // Those of a self-test are no caller's.
        Ok(names.into_iter().filter_map(|name| name.parse().ok()).collect())
    }

    /// Reads these; one that is corrupt, or gone meanwhile, is left out.
    async fn barriers_named(&self, names: &[BarrierId]) -> Result<HashMap<BarrierId, Barrier>, StoreError> {
        let mut of_buckets = vec![Vec::new(); BARRIER_BUCKETS];
        for name in names {
            of_buckets[barrier_bucket(name)].push(name.clone());
        }
        let asked = self.buckets.iter().zip(&of_buckets).filter(|(_, names)| !names.is_empty());
        let reads = asked.map(|(bucket, names)| self.read_barriers(&bucket.keys, names));
        let mut found = HashMap::new();
        for read in futures_util::future::join_all(reads).await {
            for barrier in read?.into_iter().filter_map(Result::ok).flatten() {
                found.insert(barrier.barrier.clone(), barrier);
            }
        }
        Ok(found)
    }

    /// A page of the participants of a barrier: the missing ones by name, the others by time. The cursor is a name, or
    /// `<ms>-<name>`.
    pub async fn participants(
        &self,
        barrier: &BarrierId,
        filter: ParticipantFilter,
        page: &PageRequest,
    ) -> Decided<Page<BarrierParticipant>> {
        match self.barrier(barrier).await? {
            Decision::Refused(refusal) => return Ok(Decision::Refused(refusal)),
            Decision::Done(_, found) if found.mode == BarrierMode::Count => {
                return Ok(Decision::Refused(Refusal::Barrier(BarrierRefusal::NamesNotKept {
                    field: "barrier",
                })));
            }
            Decision::Done(..) => {}
        }
        let keys = self.bucket(barrier).keys.barrier(barrier);
        let [own, marks, missing, failed] = &keys;
        let page = match filter {
            ParticipantFilter::Missing => self.missing(missing, page).await?,
            ParticipantFilter::Arrived => self.arrived(own, marks, failed, page).await?,
            ParticipantFilter::Failed => self.arrived(own, failed, failed, page).await?,
        };
        Ok(Decision::Done(Outcome::Unchanged, page))
    }

    async fn missing(
        &self,
        missing: &str,
        page: &PageRequest,
    ) -> Result<Page<BarrierParticipant>, StoreError> {
        let from = page.after.as_ref().map_or("-".to_owned(), |after| format!("({after}"));
        let mut cmd = redis::cmd("ZRANGE");
        cmd.arg(missing).arg(from).arg("+").arg("BYLEX").arg("LIMIT").arg(0).arg(page.limit);
        let names = reply::texts(self.query(&cmd).await?)?;
        let next = (names.len() == page.limit).then(|| names.last().cloned()).flatten();
        let item = |name: &String| {
            Ok(BarrierParticipant {
                participant: participant(name)?,
                outcome: None,
                note: None,
                arrived_at: None,
            })
        };
        Ok(Page { items: names.iter().map(item).collect::<Result<_, StoreError>>()?, next })
    }

    async fn arrived(
        &self,
        own: &str,
        listed: &str,
        failed: &str,
        page: &PageRequest,
    ) -> Result<Page<BarrierParticipant>, StoreError> {
        let (ms, name) = page.after.as_deref().and_then(|after| after.split_once('-')).unwrap_or_default();
        let script = &self.scripts().list;
        let mut cmd = script.call(1);
        cmd.arg(listed).arg(ms).arg(name).arg(page.limit);
        let texts = self.call(script, &cmd).await?;
        let listed: Vec<(&str, &str)> = texts.chunks_exact(2).map(|pair| (&*pair[0], &*pair[1])).collect();
        let next = listed.last().filter(|_| listed.len() == page.limit);
        let next = next.map(|(name, ms)| format!("{ms}-{name}"));
        if listed.is_empty() {
            return Ok(Page { items: Vec::new(), next });
        }
        let (mut failures, mut notes) = (redis::cmd("ZMSCORE"), redis::cmd("HMGET"));
        failures.arg(failed);
        notes.arg(own);
        for (name, _) in &listed {
            failures.arg(name);
            notes.arg(format!("n:{name}"));
        }
        let mut answers = self.committer.pool.query_all(&[failures, notes]).await.into_iter();
        let mut next_answer = || answers.next().unwrap_or_else(|| Err(StoreError::Reply("no answer".into())));
        let failures = self.note(next_answer())?;
        let notes = stock::hash_values(self.note(next_answer())?)?;
        let redis::Value::Array(failures) = failures else {
            return Err(StoreError::Corrupt("barrier".into()));
        };
        let items = listed.iter().zip(failures).zip(notes).map(|((&(name, ms), failed), note)| {
            let has_failed = failed != redis::Value::Nil;
            Ok(BarrierParticipant {
                participant: participant(name)?,
                outcome: Some(if has_failed { ArrivalOutcome::Failed } else { ArrivalOutcome::Completed }),
                note: note.as_deref().map(reply::barrier_note).transpose()?,
                arrived_at: Some(reply::time(ms)?),
            })
        });
        Ok(Page { items: items.collect::<Result<_, StoreError>>()?, next })
    }
}

fn participant(name: &str) -> Result<Participant, StoreError> {
    name.parse().map_err(|_| StoreError::Reply("not a name".into()))
}
