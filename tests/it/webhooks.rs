//! Registering webhooks, and what callers see of them.

use crate::proxy::Proxy;
use crate::receiver::{Behaviour, Receiver};
use crate::redis_server::RedisServer;
use crate::service::{Api, InProcess, new_key};
use crate::support::shared_on;
use serde_json::{Value, json};
use stockade::domain::{Caller, Decision, PatchWebhook, RegisterWebhook};
use stockade::store::scripts::Scripts;
use stockade::store::{Store, StoreError};
use stockade::webhooks::signature;

const PUBLIC: &str = "https://hooks.example/stock";

async fn registered(api: &Api, body: Value) -> Value {
    api.post("/v1/webhooks", &body).await.expect(201, "").body
}

fn path(webhook: &Value) -> String {
    format!("/v1/webhooks/{}", webhook["id"].as_str().unwrap())
}

fn patch(api: &Api, webhook: &Value, body: &Value) -> crate::service::Call {
    let call = api.call("PATCH", &path(webhook)).header("Content-Type", "application/merge-patch+json");
    call.body(body.to_string())
}

#[tokio::test]
async fn a_webhook_is_registered_listed_changed_and_deleted() {
    let service = InProcess::start();
    let body = json!({"url": PUBLIC, "types": ["barrier.*", "stock.sold_out"], "sales": ["drop-*"]});
    let made = service.api.post("/v1/webhooks", &body).await.expect(201, "");
    assert_eq!(made.outcome(), "created");
    let location = made.header("Location").to_owned();
    let mut made = made.body;
    assert_eq!(location, path(&made));
    let secret = made["secret"].as_str().unwrap();
    assert!(secret.starts_with("whsec_") && secret.len() == 6 + 44, "{secret}");
    assert_eq!(made["previous_until"], Value::Null);
    for gone in ["secret", "previous_until"] {
        made.as_object_mut().unwrap().remove(gone);
    }
    assert_eq!(
        (&made["url"], &made["status"], &made["types"]),
        (&body["url"], &json!("enabled"), &body["types"])
    );
    // The secret is shown to nobody else.
    assert_eq!(service.api.get(&path(&made)).await.expect(200, "").body, made);
    assert_eq!(
        service.api.get("/v1/webhooks").await.expect(200, "").body,
        json!({"items": [made], "next": null})
    );

    let changes = json!({"url": "https://other.example/", "types": null, "disabled": true});
    let changed = patch(&service.api, &made, &changes).send().await.expect(200, "");
    assert_eq!(changed.outcome(), "changed");
    let changed = changed.body;
    assert_eq!((&changed["url"], &changed["types"]), (&changes["url"], &Value::Null));
    assert_eq!((&changed["sales"], &changed["status"]), (&body["sales"], &json!("disabled")));
    assert!(changed["disabled_at"].is_string());
    let same = patch(&service.api, &made, &json!({"disabled": true})).send().await.expect(200, "");
    assert_eq!(same.outcome(), "unchanged");
    let enabled = patch(&service.api, &made, &json!({"disabled": false})).send().await.expect(200, "").body;
    assert_eq!((&enabled["status"], &enabled["disabled_at"]), (&json!("enabled"), &Value::Null));

    assert_eq!(service.api.call("DELETE", &path(&made)).send().await.expect(204, "").text, "");
    let repeat = service.api.call("DELETE", &path(&made)).send().await.expect(204, "");
    assert_eq!(repeat.outcome(), "replayed");
    for method in ["GET", "PATCH"] {
        let call = service.api.call(method, &path(&made));
        let call = if method == "PATCH" { patch(&service.api, &made, &json!({})) } else { call };
        call.send().await.expect(404, "unknown_webhook");
    }
}

#[tokio::test]
async fn a_key_registers_one_webhook_however_often_it_is_sent() {
    let service = InProcess::start();
    let (key, body) = (new_key(), json!({"url": PUBLIC}));
    let post = |body: &Value| service.api.call("POST", "/v1/webhooks").key(&key).json(body);
    let copies = futures_util::future::join_all((0..20).map(|_| post(&body).send())).await;
    let firsts = copies.iter().filter(|copy| copy.status == 201).count();
    assert_eq!(firsts, 1);
    let answers: Vec<Value> = copies.into_iter().map(|copy| copy.body).collect();
    assert!(answers.iter().all(|answer| *answer == answers[0]), "one secret for all");
    let repeat = post(&body).send().await.expect(200, "");
    assert_eq!(repeat.outcome(), "replayed");
    post(&json!({"url": PUBLIC, "types": ["barrier.*"]})).send().await.expect(422, "idempotency_key_reused");
    assert_eq!(service.api.get("/v1/webhooks").await.body["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_secret_is_rotated_once_a_key_and_both_sign_for_a_day() {
    let (service, receiver) = (InProcess::start(), Receiver::start().await);
    let made = registered(&service.api, json!({"url": receiver.url()})).await;
    let rotate = |key: &str| {
        service.api.call("POST", &format!("{}/rotate-secret", path(&made))).key(key).json(&json!({})).send()
    };
    let key = new_key();
    let rotated = rotate(&key).await.expect(200, "").body;
    assert_ne!(rotated["secret"], made["secret"]);
    assert!(rotated["previous_until"].is_string());
    assert_eq!(rotate(&key).await.expect(200, "").body["secret"], rotated["secret"]);

    let signed_with = async || {
        let tried = service.api.post(&format!("{}/test", path(&made)), &json!({})).await.expect(200, "").body;
        assert_eq!((&tried["delivered"], &tried["status"]), (&json!(true), &json!(200)));
        let received = receiver.received().pop().unwrap();
        assert_eq!(received.json()["type"], "dev.stockade.webhook.test");
        assert_eq!(received.json()["id"], received.id());
        [&made, &rotated].map(|of| received.is_signed_with(of["secret"].as_str().unwrap()))
    };
    assert_eq!(signed_with().await, [true, true]);
    // Each signs for its day.
    let again = rotate(&new_key()).await.expect(200, "").body;
    assert_eq!(signed_with().await, [true, true]);
    // A late repeat of the first still rotates nothing.
    assert_eq!(rotate(&key).await.expect(200, "").body["secret"], again["secret"]);
    service.advance_seconds(86_400);
    assert_eq!(signed_with().await, [false, false]);
    assert!(receiver.received().pop().unwrap().is_signed_with(again["secret"].as_str().unwrap()));
}

#[tokio::test]
async fn a_try_tells_what_became_of_it_and_nothing_of_the_answer() {
    let (service, receiver) = (InProcess::start(), Receiver::start().await);
    let made = registered(&service.api, json!({"url": receiver.url()})).await;
    for (behaviour, status, error) in [
        (Behaviour::Answer(500), json!(500), json!("status")),
        (Behaviour::Answer(410), json!(410), json!("gone")),
        (Behaviour::Redirect(302, "http://169.254.169.254/"), json!(302), json!("redirect")),
        (Behaviour::Cut, Value::Null, json!("cut")),
    ] {
        receiver.next(1, behaviour);
        let tried = service.api.post(&format!("{}/test", path(&made)), &json!({})).await.expect(200, "").body;
        assert_eq!(
            (&tried["delivered"], &tried["status"], &tried["error"]),
            (&json!(false), &status, &error)
        );
        assert_eq!(tried.as_object().unwrap().len(), 4);
    }
    // Not even 410 disables what somebody tries by hand.
    assert_eq!(service.api.get(&path(&made)).await.body["status"], "enabled");
}

#[tokio::test]
async fn what_is_wrong_is_named_and_changes_nothing() {
    let service = InProcess::start();
    let many = vec!["a.b"; 51];
    for (body, field) in [
        (json!({}), "/url"),
        (json!({"url": "ftp://a/"}), "/url"),
        (json!({"url": "https://user:secret@a/"}), "/url"),
        (json!({"url": PUBLIC, "types": []}), "/types"),
        (json!({"url": PUBLIC, "types": many}), "/types"),
        (json!({"url": PUBLIC, "types": ["barrier.*", "Barrier"]}), "/types/1"),
        (json!({"url": PUBLIC, "sales": []}), "/sales"),
        (json!({"url": PUBLIC, "sales": ["a b"]}), "/sales/0"),
        (json!({"url": PUBLIC, "secret": "mine"}), "/secret"),
    ] {
        let problem = service.api.post("/v1/webhooks", &body).await.body;
        assert_eq!(problem["errors"][0]["field"], field, "{body}");
    }
    for url in ["http://hooks.example/", "https://10.0.0.1/", "https://[::ffff:169.254.169.254]/"] {
        let problem = service.api.post("/v1/webhooks", &json!({"url": url})).await;
        let problem = problem.expect(422, "forbidden_target").body;
        assert_eq!(problem["errors"][0]["field"], "/url", "{url}");
    }
    let made = registered(&service.api, json!({"url": PUBLIC})).await;
    patch(&service.api, &made, &json!({"url": "https://10.0.0.1/"}))
        .send()
        .await
        .expect(422, "forbidden_target");
    let problem = patch(&service.api, &made, &json!({"sales": []})).send().await.body;
    assert_eq!(problem["errors"][0]["field"], "/sales");
    for field in ["url", "disabled"] {
        let body = json!({field: null});
        patch(&service.api, &made, &body).send().await.names(&format!("/{field}"));
    }
    for id in ["none", "2f9b4f4e-8d3b-8f4e-9d3b-8f4e9d3b8f4e"] {
        service.api.get(&format!("/v1/webhooks/{id}")).await.expect(404, "unknown_webhook");
        service.api.call("DELETE", &format!("/v1/webhooks/{id}")).send().await.expect(404, "unknown_webhook");
    }
    service.api.get("/v1/webhooks?after=x").await.expect(422, "invalid_request");
}

#[tokio::test]
async fn there_are_at_most_a_hundred_listed_by_page() {
    let service = InProcess::start();
    for _ in 0..100 {
        registered(&service.api, json!({"url": PUBLIC})).await;
    }
    let one_more = service.api.post("/v1/webhooks", &json!({"url": PUBLIC})).await;
    one_more.expect(409, "too_many_webhooks");
    let (mut seen, mut after) = (Vec::new(), String::new());
    loop {
        let page =
            service.api.get(&format!("/v1/webhooks?limit=33&after={after}")).await.expect(200, "").body;
        seen.extend(page["items"].as_array().unwrap().iter().map(|one| one["id"].to_string()));
        match page["next"].as_str() {
            Some(next) => after = next.to_owned(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 100);
    assert!(seen.is_sorted());
}

#[tokio::test]
async fn changes_at_the_same_time_all_count() {
    let service = InProcess::start();
    let made = registered(&service.api, json!({"url": PUBLIC})).await;
    let bodies =
        [json!({"types": ["barrier.*"]}), json!({"sales": ["drop-*"]}), json!({"url": "https://b.example/"})];
    let calls = bodies.iter().map(|body| patch(&service.api, &made, body).send());
    for answer in futures_util::future::join_all(calls).await {
        answer.expect(200, "");
    }
    let now = service.api.get(&path(&made)).await.body;
    for body in &bodies {
        for (field, value) in body.as_object().unwrap() {
            assert_eq!(now[field], *value);
        }
    }
}

#[tokio::test]
async fn one_that_cannot_be_read_does_not_silence_the_others() {
    let service = InProcess::start();
    let made = registered(&service.api, json!({"url": PUBLIC})).await;
    let mut connection = service.redis.connection().await;
    let other = uuid::Uuid::new_v4().to_string();
    let mut cmd = redis::cmd("HSET");
    cmd.arg("st:webhooks").arg(&other).arg("{");
    let () = cmd.query_async(&mut connection).await.unwrap();
    let found = Store::open(&service.shared).unwrap().webhooks().await.unwrap();
    assert_eq!(
        found.iter().map(|one| one.id.to_string()).collect::<Vec<_>>(),
        [made["id"].as_str().unwrap()]
    );
    service.api.get(&format!("/v1/webhooks/{other}")).await.expect(500, "corrupt");
}

/// A store that loses the answer to the next change of a registration, and one that loses nothing.
struct Lossy {
    proxy: Proxy,
    behind: Store,
    direct: Store,
}

impl Lossy {
    /// The first try has its effect and no answer; the second is answered `word`.
    async fn loses<T: std::fmt::Debug>(
        &self,
        word: &str,
        call: impl AsyncFn(&Store) -> Result<Decision<T>, StoreError>,
    ) -> T {
        let lost = self.proxy.lost();
        self.proxy.lose_answer_to(&Scripts::new().register.sha);
        let unknown = call(&self.behind).await;
        assert!(matches!(unknown, Err(StoreError::Unknown(_))), "{word}: {unknown:?}");
        assert_eq!(self.proxy.lost(), lost + 1, "{word}");
        match call(&self.direct).await {
            Ok(Decision::Done(outcome, value)) if outcome.as_str() == word => value,
            other => panic!("{word}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_lost_answer_is_told_by_the_repeat() {
    let server = RedisServer::start();
    let shared = shared_on(&server);
    let direct = Store::open(&shared).unwrap();
    // So that the server knows the script, and the change goes out by its hash.
    direct.self_test().await.unwrap();
    let proxy = Proxy::before(&server);
    let behind = Store::open(&proxy.shared(&shared)).unwrap();
    let lossy = Lossy { proxy, behind, direct };
    let (caller, key) = (Caller::default(), new_key().parse().unwrap());
    let request = RegisterWebhook { url: PUBLIC.parse().unwrap(), types: None, sales: None };
    let register = async |store: &Store| {
        store.register_webhook(&caller, Some(&key), request.clone(), signature::new_secret()).await
    };
    let made = lossy.loses("replayed", register).await;
    let rotate = async |store: &Store| {
        store.rotate_secret(made.id, &caller, Some(&key), signature::new_secret()).await
    };
    let rotated = lossy.loses("replayed", rotate).await;
    assert_eq!((rotated.secrets.len(), rotated.version), (2, 2));
    let patch = async |store: &Store| {
        let patch = PatchWebhook { disabled: Some(true), ..PatchWebhook::default() };
        store.patch_webhook(made.id, patch).await
    };
    assert_eq!(lossy.loses("unchanged", patch).await.version, 3);
    lossy.loses("replayed", async |store: &Store| store.delete_webhook(made.id).await).await;
    assert!(lossy.direct.webhooks().await.unwrap().is_empty());
}
