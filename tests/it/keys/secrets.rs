//! What opens the door, and that nothing else does.

use super::Keyring;
use crate::service::{Sale, Wire, lines, post};
use serde_json::Value;
use stockade::domain::Scope;

#[tokio::test]
async fn only_the_right_secret_opens_a_key() {
    let keyring = Keyring::new();
    let token = keyring.add("boss", Scope::Operator, &[]);
    let other = keyring.add("other", Scope::Operator, &[]);
    let service = keyring.service();
    let (id, secret) = token.split_once('.').unwrap();
    let (other_id, other_secret) = other.split_once('.').unwrap();
    let call = |authorization: String| {
        service.api.call("GET", "/v1/sales").header("Authorization", authorization).send()
    };
    for good in [format!("Bearer {token}"), format!("bearer {token}"), format!("BEARER  {token}")] {
        call(good).await.expect(200, "");
    }
    let kept = std::fs::read_to_string(keyring.path()).unwrap();
    let hash = kept.split('"').find(|text| text.len() == 64).unwrap();
    for bad in [
        String::new(),
        "Bearer".to_owned(),
        "Bearer ".to_owned(),
        token.clone(),
        format!("Basic {token}"),
        format!("Bearer{token}"),
        format!("Bearer {id}"),
        format!("Bearer {id}."),
        format!("Bearer .{secret}"),
        format!("Bearer {secret}"),
        format!("Bearer {id}.{other_secret}"),
        format!("Bearer {other_id}.{secret}"),
        format!("Bearer {id}.{secret}x"),
        format!("Bearer {id}.{}", &secret[1..]),
        format!("Bearer {id}.{}", secret.to_uppercase()),
        format!("Bearer {}.{secret}", id.to_uppercase() + "A"),
        format!("Bearer {id} .{secret}"),
        format!("Bearer {id}.{secret}, Bearer {token}"),
        format!("Bearer {id}.{hash}"),
        format!("Bearer {id}.{secret}\u{e9}"),
        format!("Bearer {}", "x".repeat(4_000)),
    ] {
        call(bad).await.expect(401, "unauthorized");
    }
    let twice = service.api.with_token(&token).call("GET", "/v1/sales");
    twice.header("Authorization", format!("Bearer {token}")).send().await.expect(401, "unauthorized");
    // An unknown key and a wrong secret get the same answer.
    let answer = async |authorization: String| {
        let mut body = call(authorization).await.expect(401, "unauthorized").body;
        body["instance"] = Value::Null;
        body
    };
    let (unknown, wrong) = tokio::join!(
        answer(format!("Bearer 0000000000000000.{secret}")),
        answer(format!("Bearer {id}.{other_secret}"))
    );
    assert_eq!(unknown, wrong);
}

/// A refused request leaves its body unread: what comes after it on the connection must be read as what it is.
#[tokio::test]
async fn a_refused_body_is_not_taken_for_a_request() {
    let keyring = Keyring::new();
    let token = keyring.add("boss", Scope::Operator, &[]);
    let service = keyring.service();
    let sale = Sale::of(&service.api.with_token(&token), 5).await;
    let smuggled = format!(
        "DELETE {} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n",
        sale.at("")
    );
    let with_key = |text: String| text.replacen("\r\n", &format!("\r\nAuthorization: Bearer {token}\r\n"), 1);
    for body in [smuggled.clone(), smuggled.repeat(200)] {
        let mut wire = Wire::connect(service.api.authority().parse().unwrap()).await.unwrap();
        wire.send(post(&sale.at("/reservations"), "k", &body)).await.unwrap();
        let refused = wire.answer().await.unwrap();
        assert_eq!(refused.status, 401);
        if !refused.closes() {
            let cart = lines(&[("a", 1)]).to_string();
            wire.send(with_key(post(&sale.at("/reservations"), "k", &cart))).await.unwrap();
            let answer = wire.answer().await.unwrap();
            assert!([200, 201].contains(&answer.status), "{answer:?}");
        }
    }
    sale.get("").await.expect(200, "");
}

#[tokio::test]
async fn a_reservation_belongs_to_the_name_of_a_key() {
    let keyring = Keyring::new();
    let first = keyring.add("shop-1", Scope::Operator, &[]);
    let second = keyring.add("shop-2", Scope::Storefront, &[]);
    let service = keyring.service();
    let sale = Sale::of(&service.api.with_token(&first), 10).await;
    let as_holder = |token: &str| Sale { api: service.api.with_token(token), name: sale.name.clone() };
    let reserve = async |token: &str| as_holder(token).reserve("cart-1", lines(&[("a", 1)])).await;
    let mine = reserve(&first).await.expect(201, "").id();
    let theirs = reserve(&second).await.expect(201, "").id();
    assert_ne!(mine, theirs);
    assert_eq!(reserve(&first).await.expect(200, "").id(), mine);

    // Each finds his own by its key; and other operations are told apart likewise.
    let find = "/reservations?idempotency_key=cart-1";
    for (token, id) in [(&first, &mine), (&second, &theirs)] {
        let found = as_holder(token).get(find).await.expect(200, "").body;
        assert_eq!(found["items"][0]["id"], **id);
    }

    // A second key of the name, before and after the first is revoked, is the same caller.
    let again = keyring.add("shop-2", Scope::Storefront, &[]);
    crate::sandbox::eventually("the new key is in force", async || {
        as_holder(&again).get("").await.status == 200
    })
    .await;
    assert_eq!(reserve(&again).await.expect(200, "").id(), theirs);
    keyring.revoke("shop-2");
    let anew = keyring.add("shop-2", Scope::Storefront, &[]);
    crate::sandbox::eventually("the old keys are revoked", async || {
        as_holder(&second).get("").await.status == 401
    })
    .await;
    as_holder(&again).get("").await.expect(401, "unauthorized");
    assert_eq!(reserve(&anew).await.expect(200, "").id(), theirs);
}
