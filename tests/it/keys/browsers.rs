//! Without keys, what a page in a browser on this machine may not do.

use super::Keyring;
use crate::service::{Answer, InProcess, Level, Sale, Wire, operations, shared_api};
use serde_json::Value;
use stockade::domain::Scope;

#[tokio::test]
async fn a_name_that_is_not_ours_is_misdirected_on_every_route() {
    let service = InProcess::start();
    let sale = Sale::of(&service.api, 5).await;
    let id = sale.hold(1).await;
    let before = service.dump().await;
    let port = service.api.authority().rsplit_once(':').unwrap().1;
    for host in
        ["evil.example", &format!("evil.example:{port}"), "localhost.evil.example", "10.0.0.1", "[::2]"]
    {
        for (method, path, _) in operations() {
            let path = path
                .replace("{sale}", &sale.name)
                .replace("{sku}", "a")
                .replace("{buyer}", "jane")
                .replace("{id}", &id)
                .replace("{code}", "sold_out");
            let call = service.api.call(&method, &path).header("Host", host);
            call.send().await.expect(421, "misdirected_request");
        }
        for path in ["/", "/docs", "/v1/nothing"] {
            let answer = service.api.call("GET", path).header("Host", host).send().await;
            answer.expect(421, "misdirected_request");
        }
    }
    assert_eq!(service.dump().await, before);
    for host in ["localhost", "LOCALHOST", &format!("localhost:{port}"), "127.0.0.1:1", "[::1]", "[::1]:9"] {
        service.api.call("GET", "/v1/sales").header("Host", host).send().await.expect(200, "");
    }
}

#[tokio::test]
async fn a_client_that_names_no_host_is_no_browser() {
    let api = shared_api();
    let mut wire = Wire::connect(api.authority().parse().unwrap()).await.unwrap();
    wire.send("GET /livez HTTP/1.0\r\n\r\n").await.unwrap();
    assert_eq!(wire.answer().await.unwrap().status, 200);
    let mut wire = Wire::connect(api.authority().parse().unwrap()).await.unwrap();
    let twice = "GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n";
    wire.send(twice).await.unwrap();
    assert!([400, 421].contains(&wire.answer().await.unwrap().status));
}

#[tokio::test]
async fn declared_names_are_ours_too() {
    let service = InProcess::with(&["--allowed-host", "stock.example,shop.example"]);
    let with = |host: &'static str| service.api.call("GET", "/v1/sales").header("Host", host).send();
    for host in ["stock.example", "Stock.Example:8080", "shop.example:1", "localhost"] {
        with(host).await.expect(200, "");
    }
    for host in ["stock.example.evil", "a.stock.example", "stock.examples"] {
        with(host).await.expect(421, "misdirected_request");
    }
}

/// A browser sends a POST without a body to wherever a page says, and asks nobody.
#[tokio::test]
async fn a_page_from_elsewhere_changes_nothing() {
    let sale = Sale::of(&shared_api(), 5).await;
    let id = sale.hold(2).await;
    let authority = sale.api.authority().to_owned();
    let own = format!("http://{authority}");
    let call = |method: &str, rest: &str, headers: &[(&str, &str)]| {
        let mut call = sale.api.call(method, &sale.at(rest));
        for (name, value) in headers {
            call = call.header(name, value);
        }
        call.send()
    };
    let confirm = format!("/reservations/{id}/confirm");
    for headers in [
        &[("Origin", "http://evil.example")][..],
        &[("Origin", "http://localhost:3000")],
        &[("Origin", "null")],
        &[("Sec-Fetch-Site", "cross-site")],
        &[("Sec-Fetch-Site", "same-site")],
        &[("Origin", &own), ("Sec-Fetch-Site", "cross-site")],
    ] {
        for (method, rest) in [("POST", confirm.as_str()), ("POST", "/pause"), ("DELETE", "")] {
            call(method, rest, headers).await.expect(403, "forbidden");
        }
        // It may ask: it cannot read the answer.
        call("GET", "", headers).await.expect(200, "");
    }
    assert_eq!(sale.level("a").await, Level(3, 2, 0));
    assert_eq!(sale.get("").await.body["status"], "open");
    // The page of the API itself may.
    let headers = [("Origin", own.as_str()), ("Sec-Fetch-Site", "same-origin")];
    call("POST", &confirm, &headers).await.expect(200, "");
}

#[tokio::test]
async fn with_a_key_neither_name_nor_page_matters() {
    let keyring = Keyring::new();
    let token = keyring.add("boss", Scope::Operator, &[]);
    let service = keyring.service();
    let api = service.api.with_token(&token);
    let sale = Sale::of(&api, 5).await;
    let behind_a_proxy = |method: &str, path: &str| {
        api.call(method, path).header("Host", "stock.example").header("Origin", "https://shop.example").send()
    };
    behind_a_proxy("GET", &sale.at("")).await.expect(200, "");
    behind_a_proxy("POST", &sale.at("/pause")).await.expect(200, "");
}

/// Open to others on purpose: it cannot know its names, but pages from elsewhere are refused all the same.
#[tokio::test]
async fn an_open_service_answers_to_any_name() {
    let service = InProcess::with(&["--listen", "0.0.0.0:0", "--allow-no-keys"]);
    let sale = Sale::of(&service.api, 5).await;
    let with = |headers: &'static [(&str, &str)]| {
        let call = service.api.call("POST", &sale.at("/pause"));
        headers.iter().fold(call, |call, (name, value)| call.header(name, value)).json(&Value::Null).send()
    };
    let _: Answer = with(&[("Host", "stock.example")]).await.expect(200, "");
    with(&[("Host", "stock.example"), ("Origin", "http://stock.example")]).await.expect(200, "");
    with(&[("Host", "stock.example"), ("Origin", "http://evil.example")]).await.expect(403, "forbidden");
}

/// Unless it is told its names, as in a container of whose port only this machine knows.
#[tokio::test]
async fn an_open_service_that_knows_its_names_answers_to_no_other() {
    let service =
        InProcess::with(&["--listen", "0.0.0.0:0", "--allow-no-keys", "--allowed-host", "stockade"]);
    let with = |host: &str| service.api.call("GET", "/v1/sales").header("Host", host).send();
    for host in ["stockade:8080", "localhost:8080", "127.0.0.1"] {
        with(host).await.expect(200, "");
    }
    with("evil.example").await.expect(421, "misdirected_request");
}
