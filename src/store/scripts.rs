//! The scripts, embedded and joined with the fragments that they name in their second line (`-- uses: _read ...`).

use redis::Cmd;

/// One script, ready to be called.
#[derive(Debug)]
pub struct Script {
    /// `<folder>/<verb>`.
    pub name: &'static str,
    /// Source, fragments included.
    pub code: String,
    /// SHA-1 of the source.
    pub sha: String,
}

macro_rules! scripts {
    ($($field:ident = $path:literal),* $(,)?) => {
        /// Every script there is.
        #[derive(Debug)]
        #[allow(missing_docs, reason = "each is documented by its own header")]
        pub struct Scripts {
            $(pub $field: Script,)*
        }

        impl Scripts {
            /// Joins and hashes them; once a process.
            pub fn new() -> Self {
                Self {
                    $($field: Script::join($path, include_str!(concat!("../../lua/", $path, ".lua"))),)*
                }
            }

            /// All of them, for tests and for the self-test.
            pub fn all(&self) -> Vec<&Script> {
                vec![$(&self.$field),*]
            }
        }
    };
}

scripts! {
    put_barrier = "barrier/put",
    arrive = "barrier/arrive",
    declare = "barrier/declare",
    seal = "barrier/seal",
    extend_barrier = "barrier/extend",
    cancel = "barrier/cancel",
    read_barriers = "barrier/read",
    barriers_due = "barrier/due",
    sweep_barriers = "barrier/sweep",
    acquire_lock = "lock/acquire",
    renew_lock = "lock/renew",
    release_lock = "lock/release",
    abandon_lock = "lock/abandon",
    read_lock = "lock/read",
    take_node = "lock/node_take",
    extend_node = "lock/node_extend",
    drop_node = "lock/node_drop",
    begin_order = "order/begin",
    hold_order = "order/hold",
    claim_order = "order/claim",
    step_order = "order/step",
    read_order = "order/read",
    orders_due = "order/due",
    forget_orders = "order/forget",
    put = "sale/put",
    switch = "sale/switch",
    adjust = "sale/adjust",
    delete = "sale/delete",
    purge = "sale/purge",
    repair = "sale/repair",
    repair_buyers = "sale/repair_buyers",
    trim = "sale/trim",
    read_sale = "sale/read",
    read_levels = "sale/read_levels",
    find_page = "sale/find_page",
    keep_page = "sale/keep_page",
    reserve = "reservation/reserve",
    confirm = "reservation/confirm",
    release = "reservation/release",
    pin = "reservation/pin",
    extend = "reservation/extend",
    return_reservation = "reservation/return_reservation",
    expire = "reservation/expire",
    archive = "reservation/archive",
    read = "reservation/read",
    list = "reservation/list",
    due = "reservation/due",
    inspect = "reservation/inspect",
    register = "webhook/register",
    enqueue = "webhook/enqueue",
    due_deliveries = "webhook/due",
    claim = "webhook/claim",
    settle = "webhook/settle",
    redeliver = "webhook/redeliver",
    forget = "webhook/forget",
    dismiss = "webhook/dismiss",
}

impl Default for Scripts {
    fn default() -> Self {
        Self::new()
    }
}

const FRAGMENTS: &[(&str, &str)] = &[
    ("_read", include_str!("../../lua/shared/_read.lua")),
    ("_barrier", include_str!("../../lua/shared/_barrier.lua")),
    ("_lease", include_str!("../../lua/shared/_lease.lua")),
    ("_order", include_str!("../../lua/shared/_order.lua")),
    ("_order_write", include_str!("../../lua/shared/_order_write.lua")),
    ("_stock", include_str!("../../lua/shared/_stock.lua")),
    ("_book", include_str!("../../lua/shared/_book.lua")),
    ("_lock", include_str!("../../lua/shared/_lock.lua")),
    ("_fence", include_str!("../../lua/shared/_fence.lua")),
    ("_rules", include_str!("../../lua/shared/_rules.lua")),
    ("_delivery", include_str!("../../lua/shared/_delivery.lua")),
];

impl Script {
    /// The shebang stays the first line; then the fragments, then the script's own lines.
    fn join(name: &'static str, source: &str) -> Self {
        let (shebang, rest) = source.split_once('\n').unwrap_or((source, ""));
        let (uses, body) = rest.split_once('\n').unwrap_or((rest, ""));
        let mut code = format!("{shebang}\n");
        for used in uses.strip_prefix("-- uses:").unwrap_or_default().split_whitespace() {
            let fragment = FRAGMENTS.iter().find(|(name, _)| *name == used);
            code.push_str(fragment.map_or("", |(_, text)| text));
        }
        code.push_str(body);
        let sha = redis::Script::new(&code).get_hash().to_owned();
        Self { name, code, sha }
    }

    /// Whether it may write.
    pub fn writes(&self) -> bool {
        !self.code.lines().next().is_some_and(|shebang| shebang.contains("no-writes"))
    }

    /// The verb alone: the label `script`.
    pub fn label(&self) -> &'static str {
        self.name.rsplit('/').next().unwrap_or(self.name)
    }

    /// EVALSHA with its number of keys; keys and arguments follow.
    pub fn call(&self, key_count: usize) -> Cmd {
        let mut cmd = redis::cmd("EVALSHA");
        cmd.arg(&self.sha).arg(key_count);
        cmd
    }

    /// The same call with the source instead of the hash: what NOSCRIPT asks for.
    pub fn with_source(&self, call: &Cmd) -> Cmd {
        let mut cmd = redis::cmd("EVAL");
        cmd.arg(&self.code);
        for arg in call.args_iter().skip(2) {
            if let redis::Arg::Simple(bytes) = arg {
                cmd.arg(bytes);
            }
        }
        cmd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_begin_with_their_shebang_and_hold_their_fragments() {
        for script in Scripts::new().all() {
            assert!(script.code.starts_with("#!lua"), "{}", script.name);
            assert!(script.code.contains("local function corrupt"), "{}", script.name);
            assert_eq!(script.code.matches("#!lua").count(), 1, "{}", script.name);
        }
    }
}
