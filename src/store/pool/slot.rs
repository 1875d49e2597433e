//! Which slot of a cluster a command is about.

pub use redis::cluster_routing::Slot;
use redis::{Arg, Cmd};

/// The slot of the first key of a command. One without keys is about the slot of its first argument: any server answers.
pub fn slot_of(cmd: &Cmd) -> Slot {
    let mut args = cmd.args_iter().map(|arg| match arg {
        Arg::Simple(bytes) => bytes,
        _ => b"",
    });
    let key = match args.next() {
        Some(b"EVALSHA" | b"EVAL") => args.nth(2),
        Some(b"XGROUP" | b"XINFO") => args.nth(1),
        Some(b"XREAD" | b"XREADGROUP") => args.skip_while(|arg| *arg != b"STREAMS").nth(1),
        _ => args.next(),
    };
    Slot::for_key(key.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slot_is_that_of_the_first_key() {
        // The example of the cluster specification.
        assert_eq!(Some(Slot::for_key("123456789")), Slot::new(0x31c3));
        for words in [
            "GET st:{drop}:stock",
            "EVALSHA 0123 2 st:{drop}:rules st:{drop}:stock 1",
            "EVAL return 1 {drop} 1",
            "XGROUP CREATE st:{drop}:events notifier 0-0",
            "XINFO GROUPS st:{drop}:events",
            "XREAD COUNT 1 STREAMS st:{drop}:events 0-0",
            "XREADGROUP GROUP notifier me COUNT 4 BLOCK 5000 STREAMS {drop} >",
        ] {
            let mut words = words.split(' ');
            let mut cmd = redis::cmd(words.next().unwrap());
            words.for_each(|word| {
                cmd.arg(word);
            });
            assert_eq!(slot_of(&cmd), Slot::for_key("drop"), "{cmd:?}");
        }
        assert_eq!(slot_of(&redis::cmd("TIME")), Slot::for_key(""));
    }
}
