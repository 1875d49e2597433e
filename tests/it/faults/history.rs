//! What clients asked for and were told: what must be so at the end follows from it.

use crate::service::Answer;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What a client asks for. Each has a key of its own, and is repeated with it until the answer is definite.
#[derive(Debug, Clone)]
pub struct Asked {
    pub path: String,
    pub key: String,
    pub body: Value,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    Reserve,
    Confirm,
    Release,
    Extend,
    Return,
    Adjust,
}

/// One reservation, as its client knows it.
#[derive(Debug, Default, Clone)]
pub struct Told {
    pub id: Option<String>,
    /// Definite good answers to verbs on it.
    pub done: BTreeSet<Kind>,
    /// Verbs that were sent, whatever became of them.
    pub tried: BTreeSet<Kind>,
}

/// Of all clients.
#[derive(Debug, Default)]
pub struct History {
    /// By the key of its reserve.
    pub reservations: BTreeMap<String, Told>,
    /// Units added, by key.
    pub added: BTreeMap<String, i64>,
    pub answers: usize,
    /// Answers of 503, and calls that nobody answered.
    pub failures: usize,
    /// Good answers that were repeats.
    pub replays: usize,
}

impl History {
    /// Takes an answer down. False: not definite, ask again.
    pub fn note(&mut self, asked: &Asked, of: &str, answer: Option<&Answer>) -> bool {
        self.reservations.entry(of.to_owned()).or_default().tried.insert(asked.kind);
        let Some(answer) = answer else {
            self.failures += 1;
            return false;
        };
        self.answers += 1;
        let of_redis = ["MOVED", "ASK ", "TRYAGAIN", "CLUSTERDOWN", "READONLY", "NOSCRIPT"];
        assert!(!of_redis.iter().any(|word| answer.text.contains(word)), "{}", answer.text);
        match answer.status {
            200 | 201 => self.note_done(asked, of, answer),
            // Answers about the stock or the reservation.
            409 | 410 => {}
            503 => {
                self.failures += 1;
                return false;
            }
            _ => panic!("{asked:?}: {} {}", answer.status, answer.text),
        }
        if let Some(id) = answer.body["reservation"]["id"].as_str() {
            self.note_id(of, id);
        }
        true
    }

    fn note_done(&mut self, asked: &Asked, of: &str, answer: &Answer) {
        self.replays += usize::from(answer.outcome() == "replayed");
        if asked.kind == Kind::Adjust {
            let delta = answer.body["delta"].as_i64().unwrap();
            assert_eq!(answer.body["delta"], asked.body["delta"], "somebody else's answer");
            let before = self.added.insert(asked.key.clone(), delta);
            assert!(before.is_none_or(|before| before == delta));
            return;
        }
        // Each answer is about what was asked for: its own lines, marked with its key.
        assert_eq!(answer.body["reference"], of, "somebody else's answer: {}", answer.text);
        self.note_id(of, answer.body["id"].as_str().unwrap());
        self.reservations.get_mut(of).unwrap().done.insert(asked.kind);
    }

    fn note_id(&mut self, of: &str, id: &str) {
        let told = self.reservations.get_mut(of).unwrap();
        let known = told.id.get_or_insert_with(|| id.to_owned());
        assert_eq!(known, id, "one key, two reservations: {of}");
    }
}

impl Told {
    /// Whether a status at the end contradicts what its client was told.
    pub fn allows(&self, status: &str) -> bool {
        let done = |kind| self.done.contains(&kind);
        let tried = |kind| self.tried.contains(&kind);
        match status {
            "held" => !done(Kind::Confirm) && !done(Kind::Release) && !done(Kind::Return),
            "confirmed" => tried(Kind::Confirm) && !done(Kind::Release) && !done(Kind::Return),
            "released" => tried(Kind::Release) && !done(Kind::Confirm),
            // A release that met an overdue hold is answered 200, too.
            "expired" => !done(Kind::Confirm) && !done(Kind::Return),
            "returned" => tried(Kind::Return) && tried(Kind::Confirm),
            _ => false,
        }
    }
}
