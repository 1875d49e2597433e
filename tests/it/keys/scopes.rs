//! Every route with every scope.

use super::Keyring;
use crate::barriers::Barrier;
use crate::service::{Sale, document, operations};
use serde_json::{Value, json};
use stockade::domain::Scope;

/// Who may call what, beside the operator; `public` needs no key, `lock` is for storefront and barrier, and to arrive
/// (`participant`) is for the scope `barrier` alone.
const TABLE: &str = "
    GET    /livez                                           public
    GET    /readyz                                          public
    GET    /openapi.json                                    public
    GET    /docs/                                           public
    GET    /problems                                        public
    GET    /problems/{code}                                 public
    GET    /metrics                                         metrics
    GET    /v1/sales                                        storefront
    GET    /v1/sales/{sale}                                 storefront
    PUT    /v1/sales/{sale}                                 operator
    PATCH  /v1/sales/{sale}                                 operator
    DELETE /v1/sales/{sale}                                 operator
    POST   /v1/sales/{sale}/pause                           operator
    POST   /v1/sales/{sale}/resume                          operator
    POST   /v1/sales/{sale}/close                           operator
    GET    /v1/sales/{sale}/stock                           storefront
    GET    /v1/sales/{sale}/stock/{sku}                     storefront
    PUT    /v1/sales/{sale}/stock/{sku}                     operator
    POST   /v1/sales/{sale}/stock/{sku}/adjustments         operator
    GET    /v1/sales/{sale}/stock/{sku}/adjustments         operator
    GET    /v1/sales/{sale}/events                          storefront
    GET    /v1/sales/{sale}/events/live                     storefront
    GET    /v1/sales/{sale}/buyers/{buyer}                  storefront
    POST   /v1/webhooks                                     operator
    GET    /v1/webhooks                                     operator
    GET    /v1/webhooks/{webhook}                           operator
    PATCH  /v1/webhooks/{webhook}                           operator
    DELETE /v1/webhooks/{webhook}                           operator
    POST   /v1/webhooks/{webhook}/rotate-secret             operator
    POST   /v1/webhooks/{webhook}/test                      operator
    GET    /v1/webhooks/{webhook}/deliveries                operator
    POST   /v1/webhooks/{webhook}/redeliver                 operator
    POST   /v1/sales/{sale}/reservations                    storefront
    GET    /v1/sales/{sale}/reservations                    storefront
    POST   /v1/sales/{sale}/reservations/bulk               storefront
    GET    /v1/sales/{sale}/reservations/{id}               storefront
    POST   /v1/sales/{sale}/reservations/{id}/confirm       storefront
    POST   /v1/sales/{sale}/reservations/{id}/release       storefront
    POST   /v1/sales/{sale}/reservations/{id}/extend        storefront
    POST   /v1/sales/{sale}/reservations/{id}/return        storefront
    POST   /v1/orders                                       storefront
    GET    /v1/orders/{id}                                  storefront
    POST   /v1/orders/{id}/confirm                          storefront
    POST   /v1/orders/{id}/release                          storefront
    POST   /v1/locks/{name}                                 lock
    GET    /v1/locks/{name}                                 lock
    POST   /v1/locks/{name}/renew                           lock
    POST   /v1/locks/{name}/release                         lock
    POST   /v1/sales/{sale}/locks/{name}                    lock
    GET    /v1/sales/{sale}/locks/{name}                    lock
    POST   /v1/sales/{sale}/locks/{name}/renew              lock
    POST   /v1/sales/{sale}/locks/{name}/release            lock
    GET    /v1/barriers                                     barrier
    GET    /v1/barriers/{barrier}                           barrier
    PUT    /v1/barriers/{barrier}                           barrier
    DELETE /v1/barriers/{barrier}                           barrier
    POST   /v1/barriers/{barrier}/arrivals                  participant
    GET    /v1/barriers/{barrier}/participants              barrier
    POST   /v1/barriers/{barrier}/participants              barrier
    POST   /v1/barriers/{barrier}/seal                      barrier
    POST   /v1/barriers/{barrier}/extend                    barrier
    GET    /v1/barriers/{barrier}/wait                      barrier
    GET    /v1/barriers/{barrier}/live                      barrier
";

/// Whether a scope is enough for what the table says.
fn is_enough(scope: Scope, needed: &str) -> bool {
    match needed {
        "public" => true,
        "participant" => scope == Scope::Barrier,
        "lock" => [Scope::Storefront, Scope::Barrier, Scope::Operator].contains(&scope),
        needed => scope.as_str() == needed || scope == Scope::Operator,
    }
}

/// Method, path, and the scope of the table.
fn table() -> Vec<(&'static str, &'static str, &'static str)> {
    let mut rows = Vec::new();
    for line in TABLE.lines().filter(|line| !line.trim().is_empty()) {
        let words: Vec<_> = line.split_whitespace().collect();
        rows.push((words[0], words[1], words[2]));
    }
    rows
}

#[test]
fn the_table_has_every_route_and_the_document_says_the_same() {
    let mut listed: Vec<_> =
        table().iter().map(|(method, path, _)| ((*method).to_owned(), (*path).to_owned())).collect();
    let mut described: Vec<_> = operations().map(|(method, path, _)| (method, path.to_owned())).collect();
    listed.sort();
    described.sort();
    assert_eq!(listed, described);

    let scheme = &document()["components"]["securitySchemes"]["key"];
    assert_eq!((&scheme["type"], &scheme["scheme"]), (&json!("http"), &json!("bearer")));
    for (method, path, scope) in table() {
        let (_, _, operation) = operations().find(|(of, at, _)| *of == method && *at == path).unwrap();
        let expected = match scope {
            "public" => json!([]),
            "operator" => json!([{"key": ["operator"]}]),
            "participant" => json!([{"key": ["barrier"]}]),
            "lock" => json!([{"key": ["storefront"]}, {"key": ["barrier"]}, {"key": ["operator"]}]),
            scope => json!([{"key": [scope]}, {"key": ["operator"]}]),
        };
        assert_eq!(operation["security"], expected, "{method} {path}");
    }
}

#[tokio::test]
async fn every_route_lets_in_the_scopes_that_it_needs_and_no_other() {
    let keyring = Keyring::new();
    let tokens = Scope::ALL.map(|scope| (scope, keyring.add(scope.as_str(), scope, &[])));
    let service = keyring.service();
    let operator = service.api.with_token(&tokens[1].1);
    let sale = Sale::of(&operator, 5).await;
    let id = sale.hold(1).await;
    let fill = |path: &str| {
        path.replace("{sale}", &sale.name)
            .replace("{sku}", "a")
            .replace("{buyer}", "jane")
            .replace("{id}", &id)
            .replace("{webhook}", "00000000-0000-4000-8000-000000000000")
            .replace("{barrier}", "nothing")
            .replace("{name}", "till")
            .replace("{code}", "sold_out")
    };
    // First those who are not let in: nothing changes.
    let before = service.dump().await;
    for (method, path, needed) in table() {
        let call = |token: &str| service.api.with_token(token).call(method, &fill(path)).send();
        if needed == "public" {
            continue;
        }
        service.api.call(method, &fill(path)).send().await.expect(401, "unauthorized");
        call("nobody.nothing").await.expect(401, "unauthorized");
        for (scope, token) in &tokens {
            if !is_enough(*scope, needed) {
                let needed = if matches!(needed, "participant" | "lock") { "barrier" } else { needed };
                let refused = call(token).await.expect(403, "forbidden");
                let detail = refused.body["detail"].as_str().unwrap();
                assert!(detail.contains(needed) && detail.contains(scope.as_str()), "{detail}");
            }
        }
    }
    assert_eq!(service.dump().await, before);
    // Then those who are. What they send makes no sense to most routes, but it is they who say so.
    for (method, path, needed) in table() {
        let is_let_in = |status: u16| status < 500 && ![401, 403].contains(&status);
        for (scope, token) in &tokens {
            if is_enough(*scope, needed) {
                let path = fill(path).replace(&sale.name, "nowhere");
                let answer = service.api.with_token(token).call(method, &path).send().await;
                assert!(is_let_in(answer.status), "{scope}: {method} {path}: {}", answer.text);
            }
        }
        if needed == "public" {
            let answer = service.api.call(method, &fill(path)).send().await;
            assert!(is_let_in(answer.status), "{method} {path}: {}", answer.text);
        }
    }
    // What is not there is not there for anybody.
    service.api.get("/v1/order").await.expect(404, "not_found");
    service.api.call("PATCH", "/v1/sales").send().await.expect(405, "method_not_allowed");
    let head = service.api.call("HEAD", "/livez").send().await;
    assert_eq!(head.status, 200);
}

#[tokio::test]
async fn a_storefront_sells_and_an_operator_does_both() {
    let keyring = Keyring::new();
    let operator = keyring.add("boss", Scope::Operator, &[]);
    let storefront = keyring.add("shop", Scope::Storefront, &[]);
    let service = keyring.service();
    let sale = Sale::of(&service.api.with_token(&operator), 5).await;
    let shop = Sale { api: service.api.with_token(&storefront), name: sale.name.clone() };
    for sale in [&shop, &sale] {
        let id = sale.hold(1).await;
        sale.settle(&id, "confirm", Value::Null).await.expect(200, "");
    }
    shop.post("/close", Value::Null).await.expect(403, "forbidden");
    sale.post("/close", Value::Null).await.expect(200, "");
}

#[tokio::test]
async fn an_operator_does_everything_but_arrive() {
    let keyring = Keyring::new();
    let [operator, barrier, storefront] =
        [("boss", Scope::Operator), ("job", Scope::Barrier), ("shop", Scope::Storefront)]
            .map(|(name, scope)| keyring.add(name, scope, &[]));
    let service = keyring.service();
    let boss = Barrier::put(&service.api.with_token(&operator), json!({"expected": 1})).await;
    boss.arrive("a").await.expect(403, "forbidden");
    let shop = Barrier { api: service.api.with_token(&storefront), name: boss.name.clone() };
    shop.arrive("a").await.expect(403, "forbidden");
    shop.read("").await.expect(403, "forbidden");
    let job = Barrier { api: service.api.with_token(&barrier), name: boss.name.clone() };
    assert_eq!(job.arrive("a").await.expect(200, "").body["fired"], true);
    job.put_again(json!({"expected": 1})).await.expect(200, "");
}
