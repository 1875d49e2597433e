//! Lines that may take another SKU.

use super::*;
use crate::service::{Level, shared_api};
use futures_util::future::join_all;

fn or(mut line: Value, alternatives: &[&str]) -> Value {
    line["alternatives"] = json!(alternatives);
    line
}

async fn colours(api: &Api, red: u64, blue: u64) -> Sale {
    let stock = json!({"red": {"initial": red}, "blue": {"initial": blue}, "green": {"initial": 0}});
    Sale::put(api, json!({ "stock": stock })).await
}

fn skus(order: &Value) -> Vec<&str> {
    order["lines"].as_array().unwrap().iter().map(|line| line["sku"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_line_takes_the_best_that_is_left() {
    let api = shared_api();
    let (shirts, posters) = (colours(&api, 1, 2).await, Sale::of(&api, 5).await);
    let lines = [or(line(&shirts, "red", 1), &["green", "blue"]), line(&posters, "a", 1)];
    let first = place(&api, &new_key(), &order(&lines)).await.expect(201, "").body;
    assert_eq!(skus(&first), ["red", "a"]);
    let second = place(&api, &shirts.name, &order(&lines)).await.expect(201, "").body;
    assert_eq!(skus(&second), ["blue", "a"]);
    assert_eq!(
        (&second["lines"][0]["asked_sku"], &second["lines"][0]["quantity"]),
        (&json!("red"), &json!(1))
    );
    // A repeat shows what was taken, whatever there is now.
    assert_eq!(
        place(&api, &shirts.name, &order(&lines)).await.expect(200, "").body["lines"],
        second["lines"]
    );
    verb(&api, second["id"].as_str().unwrap(), "confirm", Value::Null).await.expect(200, "");
    assert_eq!((shirts.level("red").await, shirts.level("blue").await), (Level(0, 1, 0), Level(1, 0, 1)));
    place(&api, &new_key(), &order(&lines)).await.expect(201, "");
    let refused = place(&api, &new_key(), &order(&lines)).await.expect(409, "sold_out");
    assert_eq!(refused.body["line"], 0);
    assert_eq!(posters.level("a").await, Level(2, 2, 1));
}

#[tokio::test]
async fn a_line_with_alternatives_makes_room_for_one_without() {
    let api = shared_api();
    let shirts = colours(&api, 1, 1).await;
    let lines = [or(line(&shirts, "red", 1), &["blue"]), line(&shirts, "red", 1)];
    let body = place(&api, &new_key(), &order(&lines)).await.expect(201, "").body;
    assert_eq!(skus(&body), ["blue", "red"]);
    assert_eq!((shirts.level("red").await, shirts.level("blue").await), (Level(0, 1, 0), Level(0, 1, 0)));
}

#[tokio::test]
async fn an_alternative_that_the_sale_does_not_have_is_named_when_it_is_needed() {
    let api = shared_api();
    let shirts = colours(&api, 0, 1).await;
    let lines = [line(&shirts, "blue", 1), or(line(&shirts, "red", 1), &["violet"])];
    let refused = place(&api, &new_key(), &order(&lines)).await.expect(404, "unknown_sku");
    assert_eq!((&refused.body["line"], &refused.body["sku"]), (&json!(1), &json!("violet")));
    assert_eq!(shirts.level("blue").await, Level(1, 0, 0));
}

/// The last units of both colours, wanted by orders that take either, and by carts that take one.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_race_sells_each_last_unit_once() {
    let api = shared_api();
    let shirts = colours(&api, 10, 10).await;
    let lines = |n: usize| match n % 2 {
        0 => or(line(&shirts, "red", 1), &["blue"]),
        _ => or(line(&shirts, "blue", 1), &["red"]),
    };
    let orders = (0..24).map(|n| {
        let (api, body) = (api.clone(), order(&[lines(n)]));
        async move { place(&api, &new_key(), &body).await }
    });
    let carts = (0..12).map(|n| {
        let (shirts, sku) = (shirts.clone(), if n % 2 == 0 { "red" } else { "blue" });
        async move { shirts.reserve(&new_key(), crate::service::lines(&[(sku, 1)])).await }
    });
    let (orders, carts) = tokio::join!(join_all(orders), join_all(carts));
    let mut won = 0;
    for answer in orders.into_iter().chain(carts) {
        match answer.status {
            201 => won += 1,
            _ => drop(answer.expect(409, "sold_out")),
        }
    }
    assert_eq!(won, 20);
    assert_eq!((shirts.level("red").await, shirts.level("blue").await), (Level(0, 10, 0), Level(0, 10, 0)));
}
