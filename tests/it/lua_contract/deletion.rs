//! A sale that is deleted and made again is another one.

use super::calls::{Rules, take};
use super::rig::Rig;

#[tokio::test]
async fn a_sale_that_is_made_again_knows_nothing_of_the_old_one() {
    let mut rig = Rig::with_rules(Rules::default().buyer_limit(3), &[("one", "9", "3")]).await;
    let names: Vec<String> = (0..7).map(|n| format!("a{n}")).collect();
    for name in &names {
        rig.reserve(&[take(name, "one", 1).by(name)]).await;
    }
    rig.each("release", &["a0", "a1", "a2", "a3", "a4"]).await;
    rig.confirm("a5", "").await;
    rig.confirm("a6", "").await;
    rig.adjust(&[("op", "one", 5, "", "f")]).await;
    rig.give_back(&[("a6", "op2", "one=1", "1", "f")]).await;
    rig.switch("closed").await;
    rig.delete().await;
    // Nothing of it can be reached any more, before it is gone.
    rig.each("read", &["a0"]).await.is("unknown_sale", &[]);
    rig.each("expire", &["a0"]).await.is("unknown_sale", &[]);
    rig.adjust(&[("op", "one", 5, "", "f")]).await.is("unknown_sale", &[]);
    rig.put("", "made:fp", Some(&Rules::default()), &[]).await.is("sale_deleting", &[]);
    // In steps: each removes what it names, and says how many ids are left.
    rig.purge(&[]).await.is_word("purging", "7");
    rig.purge(&["a0", "a1", "a2"]).await.is_word("purging", "4");
    rig.purge(&["a0", "nothing"]).await.is_word("purging", "4");
    let left: Vec<String> = rig.snapshot().await.keys().cloned().collect();
    assert!(left.contains(&"rules status".to_owned()) && left.contains(&"r:#a3".to_owned()), "{left:?}");
    rig.purge(&["a3", "a4", "a5"]).await.is_word("purging", "1");
    assert_eq!(rig.purge(&["a6"]).await.head, ["purged"]);
    // Records of operations run out by themselves.
    let left: Vec<String> = rig.snapshot().await.keys().cloned().collect();
    assert!(left.iter().all(|leaf| leaf.starts_with("op:")) && left.len() == 4, "{left:?}");
    rig.purge(&[]).await.is("not_deleted", &[]);

    rig.generation = "g2".into();
    rig.put("absent", "again:fp", Some(&Rules::default()), &[("one", "9", "")]).await;
    let made = rig.snapshot().await;
    assert_eq!((&*made["rules generation"], &*made["rules version"]), ("g2", "1"));
    assert_eq!((&*made["stock one:a"], made.contains_key("stock one:l")), ("9", false));
    rig.each("read", &["a5"]).await.is("unknown_reservation", &[]);
    rig.reserve(&[take("a5", "one", 1).by("a5")]).await.answer(&["held//#a5/*"]);
    rig.generation = "g1".into();
    rig.reserve(&[take("a6", "one", 1)]).await.is("stale_generation", &[]);
    rig.each("release", &["a5"]).await.is("stale_generation", &[]);
    rig.purge(&["a5"]).await.is("not_deleted", &[]);
}

#[tokio::test]
async fn orphans_are_purged_too() {
    let mut rig = Rig::with(&[("one", "9", "")]).await;
    rig.reserve(&[take("a", "one", 1)]).await;
    rig.each("release", &["a"]).await;
    rig.tamper("SET", &format!("r:{}", super::rig::id("b")), &["no record"]).await;
    rig.tamper("ZADD", "orphans", &["1", &super::rig::id("b")]).await;
    rig.delete().await;
    rig.purge(&["a"]).await.is_word("purging", "1");
    assert_eq!(rig.purge(&["b"]).await.head, ["purged"]);
    assert!(rig.snapshot().await.is_empty());
}
