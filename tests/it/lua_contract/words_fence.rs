//! Fences: a request writes only while the lock that it names is its caller's.

use super::calls::{Take, take};
use super::rig::{DAY, HOUR, Rig, SECOND};
use super::words::Answered;

pub const TOKEN: &str = "AAAAAAAAAAAAAAAAAAAAAA";
const OTHER: &str = "BBBBBBBBBBBBBBBBBBBBBB";

/// A claim to the first lock of a call, with this token and fence.
fn claim(token: &str, fence: u64) -> String {
    format!("1:{token}:{fence}")
}

fn one(name: &str) -> Take {
    take(name, "one", 1)
}

impl Rig {
    /// Ten units, and a lock `till` that is held for an hour with the fence 7.
    async fn with_till() -> Self {
        let mut rig = Self::with(&[("one", "10", "")]).await;
        rig.lock("till", TOKEN, 7, HOUR).await;
        rig
    }

    /// `confirm` or `release`; each request with its arguments up to the claim, which is to one of these locks.
    async fn settle_fenced(
        &mut self,
        verb: &str,
        locks: &[&str],
        requests: &[(&str, &[&str])],
    ) -> super::rig::Step {
        let call = self.settle_call(verb, requests);
        let (keys, args) = self.with_locks(call, locks);
        self.step(&format!("reservation/{verb}"), &keys, &args).await
    }

    async fn confirm_fenced(&mut self, name: &str, if_expired: &str, claim: &str) -> super::rig::Step {
        self.settle_fenced("confirm", &["till"], &[(name, &[if_expired, "", "", "", claim])]).await
    }

    async fn release_fenced(&mut self, name: &str, claim: &str) -> super::rig::Step {
        self.settle_fenced("release", &["till"], &[(name, &["", claim])]).await
    }

    async fn adjust_fenced(
        &mut self,
        request: (&str, &str, i64, &str, &str),
        claim: &str,
    ) -> super::rig::Step {
        let call = self.adjust_call(&[request]);
        let (keys, mut args) = self.with_locks(call, &["till"]);
        *args.last_mut().unwrap() = claim.to_owned();
        self.step("sale/adjust", &keys, &args).await
    }
}

/// In each verb: what it says of a stale claim, and that one that holds changes nothing else.
pub async fn refused() -> Answered {
    let mut rig = Rig::with_till().await;
    let (good, stale) = (claim(TOKEN, 7), claim(TOKEN, 6));
    rig.reserve(&[one("a").fenced("till", TOKEN, 6)]).await.is("stale_fence", &[]);
    let held = rig.reserve(&[one("a").fenced("till", TOKEN, 7)]).await;
    held.is(
        "held//#a/*",
        &[
            "due #a = {n+600000}",
            "events[1] = t {n} e held//#a/*",
            "r:#a = held/{n+600000}/{n}//{n+3600000}////////fp//one=1//ref/",
            "stock :a = 9",
            "stock :h = 1",
            "stock one:a = 9",
            "stock one:h = 1",
            "stock one:r = 1",
        ],
    );
    let swap = |fence| one("b").replacing("a").fenced("till", TOKEN, fence);
    rig.reserve(&[swap(8)]).await.is("stale_fence", &[]);
    rig.reserve(&[swap(7)]).await.answer(&["held//#b/*"]);
    rig.confirm_fenced("b", "refuse", &stale).await.is("stale_fence", &[]);
    rig.confirm_fenced("b", "refuse", &good).await.answer(&["confirmed/held/#b/*"]);
    rig.reserve(&[one("c")]).await;
    rig.release_fenced("c", &stale).await.is("stale_fence", &[]);
    rig.release_fenced("c", &good).await.answer(&["released/held/#c/*"]);
    rig.adjust_fenced(("op", "one", 1, "", "f"), &stale).await.is("stale_fence", &[]);
    rig.adjust_fenced(("op", "one", 1, "", "f"), &good).await.has("stock one:g = 11");
    rig.answered
}

/// What must stand in the lock: exactly this token and fence, and a deadline that has not come.
#[tokio::test]
async fn a_claim_holds_only_while_the_lock_is_the_callers() {
    let mut rig = Rig::with_till().await;
    let far = "253402214400000";
    for (text, holds) in [
        (format!("{TOKEN}:7:{far}"), true),
        (format!("{TOKEN}:7:{far}:met"), true),
        (format!("{TOKEN}:07:{far}"), true), // the same number
        (format!("{TOKEN}:7:{}", HOUR), false),
        (format!("{TOKEN}:8:{far}"), false),
        (format!("{TOKEN}:6:{far}"), false),
        (format!("{TOKEN}:70:{far}"), false),
        (format!("{OTHER}:7:{far}"), false),
        (format!("{TOKEN}x:7:{far}"), false),
        (format!("released:{TOKEN}"), false),
        (format!("{TOKEN}:7:{far}:more"), false),
        (format!("{TOKEN}:7:"), false),
        (format!("{TOKEN}:7:x"), false),
        (format!("{TOKEN}:7"), false),
        (format!("{TOKEN}:7:9999999999999999"), false), // more digits than any time has
        (String::new(), false),
    ] {
        rig.tamper("SET", "lock:till", &[&text]).await;
        let step = rig.reserve(&[one("a").fenced("till", TOKEN, 7)]).await;
        let word = if holds { "held//#a/*" } else { "stale_fence" };
        assert_eq!(step.answers, [word], "{text:?}");
        assert_eq!(step.changes.is_empty(), !holds, "{text:?}");
        rig.tamper("SET", "lock:till", &[&format!("{TOKEN}:7:{far}")]).await;
        if holds {
            // Another key next time: this one is known now.
            rig.each("release", &["a"]).await;
            rig.tamper("ZREM", "done", &[&super::rig::id("a")]).await;
            rig.tamper("DEL", &format!("r:{}", super::rig::id("a")), &[]).await;
        }
    }
    // A lock that was never taken; and a number that no double can hold is not the one next to it.
    rig.reserve(&[one("a").fenced("never", TOKEN, 7)]).await.is("stale_fence", &[]);
    rig.reserve(&[one("a").fenced("till", TOKEN, u64::MAX)]).await.is("stale_fence", &[]);
}

/// The clock of the server decides, moved like everywhere else.
#[tokio::test]
async fn a_lease_that_has_run_out_is_stale() {
    let mut rig = Rig::with_till().await;
    rig.reserve(&[one("a")]).await;
    rig.offset_ms = HOUR - 60 * SECOND;
    let late = one("b").fenced("till", TOKEN, 7);
    rig.reserve(std::slice::from_ref(&late)).await.answer(&["held//#b/*"]);
    rig.offset_ms = HOUR;
    rig.reserve(&[one("c").fenced("till", TOKEN, 7)]).await.is("stale_fence", &[]);
    // Another has it by now, who may.
    rig.lock("till", OTHER, 8, HOUR).await;
    rig.reserve(&[one("c").fenced("till", TOKEN, 7), one("d").fenced("till", OTHER, 8)])
        .await
        .answer(&["stale_fence", "held//#d/*"]);
    // What was done before is found, whoever has the lock now.
    rig.reserve(&[late]).await.answer(&["replayed//#b/*"]);
}

/// What comes before a stale fence, and what after.
#[tokio::test]
async fn reserve_refuses_in_order() {
    let mut rig = Rig::with(&[("one", "2", "1")]).await;
    let stale = |cart: Take| cart.fenced("till", TOKEN, 7);
    rig.reserve(&[one("a").by("ann")]).await;
    // The key is known: a repeat, or another body. The fence is no part of the body.
    rig.reserve(&[stale(one("a").by("ann"))]).await.is("replayed//#a/*", &[]);
    rig.reserve(&[stale(one("a").fingerprint("x"))]).await.is("idempotency_key_reused", &[]);
    for cart in [
        one("b").by("bob").for_ms(2 * HOUR),
        one("b").by("bob").replacing("nothing"),
        one("b").by("bob").and("three", 1),
        one("b"),
        one("b").by("ann"),
        take("b", "one", 3).by("bob"),
    ] {
        let plain = rig.reserve(std::slice::from_ref(&cart)).await;
        assert!(!plain.answers[0].starts_with("held"), "{plain:?}");
        rig.reserve(&[stale(cart)]).await.is("stale_fence", &[]);
    }
    rig.switch("paused").await;
    rig.reserve(&[stale(one("b").by("bob"))]).await.is("sale_paused", &[]);
    rig.switch("closed").await;
    rig.reserve(&[stale(one("b").by("bob"))]).await.is("sale_closed", &[]);
}

/// What the record says comes first; then the fence; then the change. An overdue hold is expired whatever it says.
#[tokio::test]
async fn settling_refuses_in_order() {
    let mut rig = Rig::with_till().await;
    let (good, stale) = (claim(TOKEN, 7), claim(OTHER, 7));
    rig.confirm_fenced("nothing", "refuse", &stale).await.is("unknown_reservation", &[]);
    rig.release_fenced("nothing", &stale).await.is("unknown_reservation", &[]);
    rig.order_part("p").await;
    rig.confirm_fenced("p", "refuse", &stale).await.is("part_of_order//#p/*", &[]);
    rig.release_fenced("p", &stale).await.is("part_of_order//#p/*", &[]);
    rig.reserve(&[one("a"), one("b"), one("c"), one("d")]).await;
    let too_many: &[&str] = &["refuse", "", "one=2", "", &stale];
    let step = rig.settle_fenced("confirm", &["till"], &[("a", too_many)]).await;
    step.is("quantity_exceeds_reservation//#a/*", &[]);
    rig.confirm("a", "").await;
    rig.each("release", &["b"]).await;
    for (name, verb, word) in [
        ("a", "confirm", "replayed"),
        ("a", "release", "already_confirmed"),
        ("b", "confirm", "already_released"),
        ("b", "release", "replayed"),
    ] {
        let step = match verb {
            "confirm" => rig.confirm_fenced(name, "retake", &stale).await,
            _ => rig.release_fenced(name, &stale).await,
        };
        step.is(&format!("{word}//#{name}/*"), &[]);
    }
    rig.offset_ms = 600 * SECOND;
    rig.release_fenced("c", &stale).await.answer(&["expired/held/#c/*"]);
    rig.release_fenced("c", &stale).await.is("expired//#c/*", &[]);
    let step = rig.confirm_fenced("d", "retake", &stale).await;
    step.answer(&["stale_fence/held/#d/*"]);
    step.has("due #d gone");
    rig.confirm_fenced("d", "retake", &stale).await.is("stale_fence//#d/*", &[]);
    rig.confirm_fenced("d", "refuse", &stale).await.is("confirm_expired/1///#d/*", &[]);
    rig.confirm_fenced("d", "retake", &good).await.answer(&["retaken/expired/#d/*"]);
    rig.reserve(&[one("e")]).await;
    rig.offset_ms = 1_200 * SECOND;
    rig.confirm_fenced("e", "refuse", &stale).await.answer(&["confirm_expired/1//held/#e/*"]);
}

#[tokio::test]
async fn adjust_refuses_in_order() {
    let mut rig = Rig::with_till().await;
    let stale = claim(TOKEN, 8);
    let made = rig.adjust(&[("op", "one", 5, "", "f")]).await;
    let again = made.answers[0].replacen("adjusted", "replayed", 1);
    rig.adjust_fenced(("op", "one", 5, "", "f"), &stale).await.is(&again, &[]);
    rig.adjust_fenced(("op", "one", 6, "", "g"), &stale).await.is("idempotency_key_reused", &[]);
    for request in [
        ("new", "one", 1, "", "f"),
        ("new", "nine", 1, "", "f"),
        ("new", "one", 1, "3", "f"),
        ("new", "one", -99, "", "f"),
    ] {
        rig.adjust_fenced(request, &stale).await.is("stale_fence", &[]);
    }
}

/// Requests of one call may depend on one lock, on several, and on none; one of them is another's trouble to nobody.
#[tokio::test]
async fn each_request_of_a_call_has_its_own_claim() {
    let mut rig = Rig::with_till().await;
    rig.lock("desk", OTHER, 3, HOUR).await;
    rig.tamper("RPUSH", "lock:broken", &["x"]).await;
    let carts = [
        one("a").fenced("till", TOKEN, 7),
        one("b").fenced("desk", OTHER, 3),
        one("c"),
        one("d").fenced("till", TOKEN, 9),
        one("e").fenced("desk", TOKEN, 7),
        one("f").fenced("till", TOKEN, 7),
        one("g").fenced("broken", TOKEN, 7),
        one("h").fenced("till", TOKEN, 7).replacing("a"),
    ];
    let (keys, args) = rig.reserve_call(&carts);
    assert_eq!((keys.len(), &*args[2]), (23 + 9 + 3, "3"), "each lock once");
    let step = rig.reserve(&carts).await;
    assert!(step.answers[0].starts_with("held//#a/"), "{step:?}");
    let expected =
        ["held//#b/*", "held//#c/*", "stale_fence", "stale_fence", "held//#f/*", "corrupt", "held//#h/*"];
    assert_eq!(step.answers[1..], expected);
    step.has("stock one:h = 4");
    let locks = ["till", "desk", "broken"];
    let all: [(&str, &str); 4] = [
        ("b", &format!("2:{OTHER}:3")),
        ("c", &format!("1:{TOKEN}:8")),
        ("f", ""),
        ("h", &format!("3:{TOKEN}:7")),
    ];
    let requests = all.map(|(name, claim)| (name, vec!["", claim]));
    let requests: Vec<(&str, &[&str])> = requests.iter().map(|(name, args)| (*name, &args[..])).collect();
    let step = rig.settle_fenced("release", &locks, &requests).await;
    step.answer(&["released/held/#b/*", "stale_fence", "released/held/#f/*", "corrupt"]);
    let requests = [("c", vec!["refuse", "", "", "", all[0].1]), ("h", vec!["refuse", "", "", "", all[3].1])];
    let requests: Vec<(&str, &[&str])> = requests.iter().map(|(name, args)| (*name, &args[..])).collect();
    let step = rig.settle_fenced("confirm", &locks, &requests).await;
    step.answer(&["confirmed/held/#c/*", "corrupt"]);
    let broken = rig.with_locks(rig.adjust_call(&[("op", "one", 1, "", "f")]), &["broken"]);
    let (keys, mut args) = broken;
    *args.last_mut().unwrap() = claim(TOKEN, 7);
    rig.step("sale/adjust", &keys, &args).await.is("corrupt", &[]);
}

/// A call that names no locks asks for none: its arguments are as short as they can be.
#[tokio::test]
async fn the_plain_path_has_nothing_of_it() {
    let mut rig = Rig::with_till().await;
    let (keys, args) = rig.reserve_call(&[one("a"), one("b").replacing("a")]);
    assert_eq!(keys.len(), 23 + 3);
    // Offset, generation, two counts, two carts, and four arguments a request.
    assert_eq!(args.len(), 4 + 2 + 2 * 4);
    assert_eq!((&*args[2], &*args[4], &*args[5]), ("0", "\n\none=1", "\n+\none=1"));
    rig.reserve(&[one("a"), one("b").replacing("a")]).await;
    rig.offset_ms = DAY;
    rig.reserve(&[one("c")]).await.answer(&["held//#c/*"]);
}
