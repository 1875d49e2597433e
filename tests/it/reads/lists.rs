//! Lists that are cut from pages.

use super::{own_server, shop_on};
use crate::shop::{Shop, seeded, skus, word};
use rand::Rng;
use serde_json::Value;
use std::cell::Cell;
use stockade::domain::{Caller, Decision, Expect, PageRequest, PutSale, PutSku};

fn names(of: &[Value]) -> Vec<&str> {
    of.iter().map(|level| level["sku"].as_str().unwrap()).collect()
}

/// At most 1,000 SKUs are put in one call.
async fn put(shop: &Shop, stock: &[(String, u64)]) {
    for some in stock.chunks(1_000) {
        let stock: Vec<(&str, u64)> = some.iter().map(|(sku, units)| (sku.as_str(), *units)).collect();
        let rules = PutSale::default().rules().unwrap();
        let (store, caller) = (&shop.store, Caller::default());
        let put = store.put_sale(&shop.sale, &caller, None, &Expect::Anything, rules, skus(&stock)).await;
        assert_eq!(word(&put), "changed", "{put:?}");
    }
}

/// Whatever `limit` and `after`, a list from pages is the list that is read by name.
#[tokio::test]
async fn a_list_from_pages_is_the_list_that_is_read_by_name() {
    let server = own_server();
    let shop = shop_on(&server, &[]).await;
    let without_time = |list: &mut Value| {
        for level in list["items"].as_array_mut().unwrap() {
            level.as_object_mut().unwrap().remove("as_of").unwrap();
        }
    };
    let mut rng = seeded("a_list_from_pages_is_the_list_that_is_read_by_name");
    let mut count = 0;
    for more in [0, 1, 248, 1, 1, 249, 260] {
        let stock: Vec<_> = (0..more).map(|n| (format!("s{:05}", (count + n) * 7 % 10_000), n)).collect();
        put(&shop, &stock).await;
        count += more;
        shop.shared.clock.advance_ms(2_000);
        for turn in 0..30 {
            let limit = if turn < 5 { [1, 249, 250, 251, 500][turn] } else { rng.random_range(1..=500) };
            let after = match turn % 3 {
                0 => None,
                _ => Some(format!("s{:05}", rng.random_range(0..10_000))),
            };
            let request = PageRequest { limit, after: after.clone() };
            let Ok(Decision::Done(_, now)) = shop.store.levels(&shop.sale, &request).await else {
                panic!("no levels")
            };
            let mut now = serde_json::to_value(&now).unwrap();
            let mut recent = shop.recent_list(limit, after.as_deref()).await;
            without_time(&mut now);
            without_time(&mut recent);
            assert_eq!(recent, now, "{limit} of {count} after {after:?}");
        }
    }
}

/// SKUs are added before, between and behind those that somebody is reading, who finds each of the first ones once.
#[tokio::test]
async fn each_sku_is_listed_once_while_others_are_added() {
    let server = own_server();
    let shop = Shop::open(&server, &[]).await; // its clock runs
    let first: Vec<(String, u64)> = (0..600).map(|n| (format!("m{n:04}"), n)).collect();
    put(&shop, &first).await;
    let done = Cell::new(0);
    let read = async |shop: &Shop, limits: &[usize]| {
        for limit in limits {
            let all = shop.recent_all(*limit).await;
            let names = names(&all);
            let once = names.is_sorted_by(|one, next| one < next);
            assert!(once, "{limit} a page: something comes twice, or out of order");
            let of_first = all.iter().filter(|level| level["sku"].as_str().unwrap().len() == 5);
            assert!(
                of_first.map(|level| level["available"].as_u64().unwrap()).eq(0..600),
                "{limit} a page: something is left out"
            );
        }
        done.set(done.get() + 1);
    };
    let add = async || {
        for n in 0.. {
            let prefix = ["a", "m0300-", "z", "m0249-", "m0000-"][n % 5];
            let request = PutSku { initial: Some(1), buyer_limit: None };
            let sku = format!("{prefix}{n:05}").parse().unwrap();
            let added = shop.store.put_sku(&shop.sale, &sku, request).await;
            assert_eq!(word(&added), "created", "{added:?}");
            if done.get() == 3 {
                return n;
            }
        }
        unreachable!()
    };
    let elsewhere = shop.elsewhere();
    let (added, ..) = tokio::join!(
        add(),
        read(&shop, &[1, 250]),
        read(&elsewhere, &[7, 249, 99, 500, 251]),
        read(&elsewhere, &[500, 100, 250, 3])
    );
    assert!(added > 50, "only {added} were added meanwhile");
}

/// A page of before and a page of after some SKUs were added do not fit: the list is then read by name.
#[tokio::test]
async fn pages_of_different_times_are_not_mixed() {
    let server = own_server();
    let shop = shop_on(&server, &[]).await;
    let stock: Vec<(String, u64)> = (0..500).map(|n| (format!("m{n:04}"), n)).collect();
    put(&shop, &stock).await;
    // Only the second page is remembered; what is added then pushes one over the edge that it does not have.
    let second = shop.recent_list(250, Some("m0250")).await;
    assert_eq!(names(second["items"].as_array().unwrap()).len(), 249);
    put(&shop, &[("a".to_owned(), 1)]).await;
    let all = shop.recent_all(500).await;
    assert_eq!(all.len(), 501);
    assert!(names(&all).is_sorted_by(|one, next| one < next));
    // The same by cursor: the page that it should be in does not have it.
    let rest = shop.recent_list(500, Some("m0248")).await;
    assert_eq!(rest["items"].as_array().unwrap().len(), 251);
}
