//! How a script about a lock is called: where the lock is, whose token it is, and what the answer says.

use super::*;
use redis::Cmd;

/// What a caller's token follows from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// The same key has the same token: a repeat meets its own lease.
    Key(Caller, IdempotencyKey),
    /// Random.
    Token(LockToken),
}

impl Source {
    pub(super) fn random() -> Result<Self, StoreError> {
        token(uuid::Uuid::new_v4()).map(Self::Token)
    }

    pub(super) fn token(&self, ids: &IdMaker, name: &LockName) -> Result<LockToken, StoreError> {
        match self {
            Self::Key(caller, key) => token(ids.operation(&format!("lock {name}"), caller, Some(key)).0),
            Self::Token(token) => Ok(token.clone()),
        }
    }
}

fn token(id: uuid::Uuid) -> Result<LockToken, StoreError> {
    ids::short(id).parse().map_err(|_| StoreError::Reply("not a token".into()))
}

/// Where a lock is, in one incarnation of its sale.
pub(super) struct Home {
    pub(super) lock: String,
    pub(super) fence: String,
    /// Key of the rules, and the incarnation.
    pub(super) sale: Option<(String, String)>,
    pub(super) ids: IdMaker,
}

/// What a script of locks answers.
pub(super) struct Answer {
    pub(super) word: String,
    now: Timestamp,
    fence: Option<u64>,
    deadline: Option<Timestamp>,
}

impl Answer {
    fn read(texts: &[String]) -> Result<Self, StoreError> {
        let text = |at: usize| texts.get(at).map(String::as_str).unwrap_or_default();
        Ok(Self {
            word: text(0).to_owned(),
            now: reply::time(text(1))?,
            fence: reply::optional(text(2), reply::number)?,
            deadline: reply::optional(text(3), reply::time)?,
        })
    }

    fn deadline(&self) -> Result<Timestamp, StoreError> {
        self.deadline.ok_or_else(|| StoreError::Reply("no deadline".into()))
    }

    pub(super) fn lock(
        &self,
        place: &LockPlace,
        name: &LockName,
        token: LockToken,
    ) -> Result<Lock, StoreError> {
        Ok(Lock {
            name: name.clone(),
            sale: place.sale().cloned(),
            token,
            fence: self.fence.ok_or_else(|| StoreError::Reply("no fence".into()))?,
            expires_at: self.deadline()?,
            server_time: self.now,
        })
    }

    /// As everybody sees it.
    pub(super) fn state(&self, place: &LockPlace, name: &LockName) -> LockState {
        LockState {
            name: name.clone(),
            sale: place.sale().cloned(),
            held: self.deadline.is_some(),
            fence: self.fence,
            expires_at: self.deadline,
            server_time: self.now,
        }
    }

    pub(super) fn refusal(&self) -> Result<Refusal, StoreError> {
        Ok(Refusal::Lock(match self.word.as_str() {
            "lock_held" => LockRefusal::Held { expires_at: self.deadline()? },
            "not_owner" => LockRefusal::NotOwner,
            "lock_expired" => LockRefusal::Expired,
            _ => return Err(StoreError::Reply("unknown word".into())),
        }))
    }
}

impl Home {
    /// The keys of a call, then its arguments up to those of the caller.
    fn call(&self, script: &Script, with_fence: bool, offset_ms: i64) -> Cmd {
        let mut keys = vec![&self.lock];
        keys.extend(with_fence.then_some(&self.fence));
        keys.extend(self.sale.as_ref().map(|(rules, _)| rules));
        let mut cmd = script.call(keys.len());
        cmd.arg(keys).arg(offset_ms).arg(self.generation());
        cmd
    }

    fn generation(&self) -> &str {
        self.sale.as_ref().map_or("", |(_, generation)| generation)
    }
}

impl Store {
    pub(super) async fn home(&self, place: &LockPlace, name: &LockName) -> Result<Option<Home>, StoreError> {
        Ok(match place {
            LockPlace::Free => {
                let [lock, fence] = keys::free_lock(name);
                Some(Home { lock, fence, sale: None, ids: self.ids().await?.clone() })
            }
            LockPlace::Sale(sale) => self.handle(sale).await?.map(|handle| Home {
                lock: handle.keys.lock(name),
                fence: handle.keys.fence.clone(),
                sale: Some((handle.keys.rules().to_owned(), handle.generation.clone())),
                ids: handle.ids.clone(),
            }),
        })
    }

    pub(super) async fn call_at(
        &self,
        home: &Home,
        script: &Script,
        with_fence: bool,
        args: &[String],
    ) -> Result<Vec<String>, StoreError> {
        let mut cmd = home.call(script, with_fence, self.offset_ms());
        cmd.arg(args);
        self.call(script, &cmd).await
    }

    /// Calls a script about a lock; once more when its sale turns out to be another incarnation. None: no such sale.
    pub(super) async fn lock_call(
        &self,
        place: &LockPlace,
        name: &LockName,
        script: fn(&Scripts) -> &Script,
        with_fence: bool,
        args: impl Fn(&IdMaker) -> Result<Vec<String>, StoreError>,
    ) -> Result<Option<(Vec<String>, Answer)>, StoreError> {
        let script = script(self.scripts());
        for _ in 0..2 {
            let Some(home) = self.home(place, name).await? else { break };
            let args = args(&home.ids)?;
            let texts = self.call_at(&home, script, with_fence, &args).await?;
            match (texts.first().map(String::as_str), place) {
                (Some("unknown_sale" | "stale_generation"), LockPlace::Sale(sale)) => {
                    self.sales.remove_if(sale, |known| known.generation == home.generation());
                }
                _ => return Ok(Some((args, Answer::read(&texts)?))),
            }
        }
        Ok(None)
    }
}
