//! A key that is limited to some sales.

use super::Keyring;
use crate::service::{InProcess, Sale, lines, new_key, operations};
use serde_json::{Value, json};
use stockade::domain::Scope;

const STOCK: &str = r#"{"stock":{"a":{"initial":5}}}"#;

async fn put(service: &InProcess, token: &str, names: &[&str]) {
    for name in names {
        let rules = serde_json::from_str(STOCK).unwrap();
        service.api.with_token(token).put(&format!("/v1/sales/{name}"), &rules).await.expect(201, "");
    }
}

/// A lock's, of nobody.
const TOKEN: &str = "AAAAAAAAAAAAAAAAAAAAAA";

/// What is a good call of each route, apart from the sale.
fn body_of(method: &str, path: &str) -> Value {
    match (method, path.rsplit('/').next().unwrap()) {
        ("POST", "reservations") => lines(&[("a", 1)]),
        ("POST", "extend") => json!({"hold_seconds": 60}),
        ("POST", "adjustments") => json!({"delta": 1, "reason": "r"}),
        ("POST", "{name}") => json!({"ttl_ms": 1000}),
        ("POST", "renew") => json!({"token": TOKEN, "ttl_ms": 1000}),
        ("POST", "release") if path.contains("/locks/") => json!({"token": TOKEN}),
        ("PUT", "{sku}") => json!({"initial": 5}),
        ("PUT", "{sale}") => serde_json::from_str(STOCK).unwrap(),
        _ => Value::Null,
    }
}

#[tokio::test]
async fn other_sales_do_not_exist_for_it_on_any_route() {
    let keyring = Keyring::new();
    let all = keyring.add("all", Scope::Operator, &[]);
    let some = keyring.add("some", Scope::Operator, &["drop-*", "*.eu"]);
    let service = keyring.service();
    put(&service, &all, &["drop-1", "shop.eu", "shop.us", "x-drop-1"]).await;
    let foreign = Sale { api: service.api.with_token(&all), name: "shop.us".into() };
    let id = foreign.hold(1).await;
    let before = service.dump().await;
    let api = service.api.with_token(&some);
    for sale in ["shop.us", "x-drop-1", "drop", "Drop-1", "nowhere", "shop%2Eus", "%73hop.us"] {
        for (method, path, _) in operations().filter(|(_, path, _)| path.contains("{sale}")) {
            let body = body_of(&method, path);
            let path = path
                .replace("{sale}", sale)
                .replace("{sku}", "a")
                .replace("{buyer}", "jane")
                .replace("{id}", &id)
                .replace("{name}", "till");
            let answer = api.call(&method, &path).key(&new_key()).json(&body).send().await;
            let answer = answer.expect(404, "unknown_sale");
            // In the words of the store, so that nobody can tell.
            assert_eq!(answer.body["detail"], "No such sale.", "{method} {path}");
        }
    }
    assert_eq!(service.dump().await, before, "nothing changed");
    // Its own are there: on each kind of route.
    for name in ["drop-1", "shop.eu"] {
        let sale = Sale { api: api.clone(), name: name.into() };
        let id = sale.hold(1).await;
        sale.settle(&id, "confirm", Value::Null).await.expect(200, "");
        for rest in
            ["", "/stock", "/stock/a", "/stock/a/adjustments", "/events", "/buyers/jane", "/reservations"]
        {
            sale.get(rest).await.expect(200, "");
        }
        sale.post("/pause", Value::Null).await.expect(200, "");
        sale.post("/stock/a/adjustments", json!({"delta": 1, "reason": "r"})).await.expect(201, "");
    }
    put(&service, &some, &["drop-2"]).await;
}

#[tokio::test]
async fn lists_have_its_own_sales_only_and_cursors_tell_no_others() {
    let keyring = Keyring::new();
    let all = keyring.add("all", Scope::Operator, &[]);
    let some = keyring.add("some", Scope::Storefront, &["b*", "e"]);
    let none = keyring.add("none", Scope::Storefront, &["zzz"]);
    let service = keyring.service();
    put(&service, &all, &["a1", "b1", "b2", "c1", "c2", "b3", "d", "e", "f"]).await;
    let list = async |token: &str, limit: usize| {
        let api = service.api.with_token(token);
        let (mut names, mut after) = (Vec::new(), String::new());
        loop {
            let page = api.get(&format!("/v1/sales?limit={limit}&after={after}")).await.expect(200, "").body;
            let items = page["items"].as_array().unwrap();
            names.extend(items.iter().map(|sale| sale["sale"].as_str().unwrap().to_owned()));
            let Some(next) = page["next"].as_str() else { return names };
            assert_eq!(items.len(), limit, "a page that is not the last is full");
            let of = next.split(':').next().unwrap();
            assert_eq!(of, names.last().unwrap(), "a cursor names the last item");
            after = next.to_owned();
        }
    };
    for limit in [1, 2, 3, 4, 5, 500] {
        assert_eq!(list(&some, limit).await, ["b1", "b2", "b3", "e"], "{limit}");
        assert_eq!(list(&none, limit).await, [""; 0]);
    }
    assert_eq!(list(&all, 500).await.len(), 9);
    // A cursor of another key's list is a place, and opens nothing.
    let page = service.api.with_token(&all).get("/v1/sales?limit=4").await.expect(200, "").body;
    let after = page["next"].as_str().unwrap();
    let rest = service.api.with_token(&some).get(&format!("/v1/sales?after={after}")).await.expect(200, "");
    assert_eq!(rest.body["items"][0]["sale"], "e");
    assert_eq!(rest.body["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_key_limited_to_sales_has_no_webhooks() {
    let keyring = Keyring::new();
    let token = keyring.add("partner", Scope::Operator, &["drop-*"]);
    let service = keyring.service();
    let limited = service.api.with_token(&token);
    limited.post("/v1/webhooks", &json!({"url": "https://hooks.example/"})).await.expect(403, "forbidden");
    limited.get("/v1/webhooks").await.expect(403, "forbidden");
}

#[tokio::test]
async fn an_order_exists_for_whoever_sees_all_of_its_sales() {
    let keyring = Keyring::new();
    let all = keyring.add("all", Scope::Operator, &[]);
    let some = keyring.add("some", Scope::Storefront, &["drop-*"]);
    let service = keyring.service();
    put(&service, &all, &["drop-1", "drop-2", "shop.us"]).await;
    let line = |sale: &str| json!({"sale": sale, "sku": "a", "quantity": 1});
    let order = |sales: &[&str]| json!({"lines": sales.iter().map(|sale| line(sale)).collect::<Vec<_>>()});
    let (all, some) = (service.api.with_token(&all), service.api.with_token(&some));
    let before = service.dump().await;
    let refused = some.post("/v1/orders", &order(&["drop-1", "shop.us"])).await.expect(404, "unknown_sale");
    assert_eq!((&refused.body["line"], &refused.body["sale"]), (&json!(1), &json!("shop.us")));
    assert_eq!(service.dump().await, before, "nothing changed");
    let foreign = all.post("/v1/orders", &order(&["drop-1", "shop.us"])).await.expect(201, "").id();
    some.get(&format!("/v1/orders/{foreign}")).await.expect(404, "unknown_order");
    for verb in ["confirm", "release"] {
        let path = format!("/v1/orders/{foreign}/{verb}");
        some.post(&path, &Value::Null).await.expect(404, "unknown_order");
    }
    assert_eq!(all.get(&format!("/v1/orders/{foreign}")).await.expect(200, "").body["status"], "held");
    let own = some.post("/v1/orders", &order(&["drop-1", "drop-2"])).await.expect(201, "").id();
    some.post(&format!("/v1/orders/{own}/confirm"), &Value::Null).await.expect(200, "");
}
