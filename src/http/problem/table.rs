//! The one table of problems: what a code means, and what its caller should do.

/// What the caller of a refused request should do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// Tell the shopper: it is an answer, not a failure.
    Show,
    /// Send the same request with the same key again, after `Retry-After`.
    RetrySameKey,
    /// This key's story is over: a new attempt needs a new key.
    NewKey,
    /// Give the money back, where it was taken already.
    Refund,
    /// Correct the request: a repeat gets the same answer.
    FixTheCall,
    /// Nothing the caller can do: the operator must look.
    CallTheOperator,
}

impl Remedy {
    /// In a few words, as the README's table has it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Show => "show",
            Self::RetrySameKey => "retry, same key",
            Self::NewKey => "new key",
            Self::Refund => "refund",
            Self::FixTheCall => "fix the call",
            Self::CallTheOperator => "call the operator",
        }
    }
}

macro_rules! problems {
    ($($name:ident $code:literal $status:literal $remedy:ident $title:literal $advice:literal;)*) => {
        /// Every code that `code` of a problem can have.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $title] $name,)*
        }

        impl Code {
            /// All of them, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $code,)* }
            }

            /// Status of the answer.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// What happened, in a few words that never change.
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// What the caller should do.
            pub fn remedy(self) -> Remedy {
                match self { $(Self::$name => Remedy::$remedy,)* }
            }

            /// The same in a sentence.
            pub fn advice(self) -> &'static str {
                match self { $(Self::$name => $advice,)* }
            }

            /// URI of the problem's page.
            pub fn uri(self) -> &'static str {
                match self { $(Self::$name => concat!("/problems/", $code),)* }
            }
        }
    };
}

problems! {
    UnknownSale "unknown_sale" 404 FixTheCall "No such sale"
        "Create the sale with PUT first, or correct its name.";
    UnknownSku "unknown_sku" 404 FixTheCall "No such SKU in this sale"
        "Add the SKU with PUT, or correct its name.";
    UnknownReservation "unknown_reservation" 404 FixTheCall "No such reservation"
        "It was never made, belongs to somebody else, or its record was archived after its retention.";
    UnknownWebhook "unknown_webhook" 404 FixTheCall "No such webhook"
        "It was never registered, or is deleted; a target of `notify` is known while it has deliveries.";
    TooManyWebhooks "too_many_webhooks" 409 FixTheCall "There are all the webhooks there may be"
        "Delete one that is not needed: there may be 100.";
    ForbiddenTarget "forbidden_target" 422 FixTheCall "Webhooks may not go there"
        "Take a public https URL, or let the service be started with --webhook-allow-private.";
    UnknownDelivery "unknown_delivery" 404 FixTheCall "No such delivery"
        "The webhook never got this event, or its delivery is no longer kept.";
    UnknownBarrier "unknown_barrier" 404 FixTheCall "No such barrier"
        "Make it with PUT first, correct its name, or read its event: it is removed some time after its end.";
    BarrierExists "barrier_exists" 409 FixTheCall "There is a barrier of this name that waits for something else"
        "Take another name, or send what the first PUT said. `barrier` shows it.";
    BarrierEnded "barrier_ended" 410 FixTheCall "The barrier has ended"
        "`barrier` shows how. A participant that had arrived before the end gets 200 instead.";
    UnknownParticipant "unknown_participant" 422 FixTheCall "The barrier does not wait for this participant"
        "Correct the name: everybody whom it waits for is known.";
    TooManyParticipants "too_many_participants" 409 FixTheCall "The barrier has all the participants it can have"
        "Spread them over several barriers: one has at most 100,000.";
    NothingDeclared "nothing_declared" 422 FixTheCall "No participant is known yet"
        "Declare participants first, or send `expected`.";
    TooManyArrivals "too_many_arrivals" 409 FixTheCall "More participants are known than the seal has"
        "Send an `expected` of at least `declared`, or none.";
    AlreadySealed "already_sealed" 409 FixTheCall "The barrier is sealed with another number"
        "A number is settled once. `expected` shows it.";
    NamesNotKept "names_not_kept" 422 FixTheCall "This barrier keeps numbers, not names"
        "Use mode `members` where names are wanted.";
    LockHeld "lock_held" 409 Show "Somebody else has the lock"
        "Try again after `expires_at`, or send a `wait_ms`.";
    NotOwner "not_owner" 409 FixTheCall "The lock is another one's"
        "Whatever the lease was for must stop. Acquire again with a new key.";
    LockExpired "lock_expired" 409 NewKey "The lease is over"
        "Whatever the lease was for must stop, and be checked. Acquire again with a new key.";
    StaleFence "stale_fence" 409 NewKey "The write depends on a lease that is over"
        "Nothing was done. Acquire the lock again with a new key, and decide again.";
    UnknownOrder "unknown_order" 404 FixTheCall "No such order"
        "It was never made, was refused, is forgotten, or belongs to sales that this key may not use.";
    SaleNotOpen "sale_not_open" 409 Show "The sale has not begun"
        "Show `opens_at`. The same key may be used once the sale is open.";
    SalePaused "sale_paused" 409 Show "The sale is paused"
        "Show that the sale is paused. The same key may be used once it goes on.";
    SaleClosed "sale_closed" 409 Show "The sale is closed"
        "Show that the sale is over. Holds that exist can still be confirmed.";
    SaleDeleting "sale_deleting" 409 Show "The sale is being deleted"
        "Its name can be used again when its records are gone.";
    SaleNotEmpty "sale_not_empty" 409 FixTheCall "The sale is not empty"
        "Release or confirm what is held, and close the sale, before deleting it.";
    PreconditionFailed "precondition_failed" 412 FixTheCall "It is not in the expected state"
        "Read it again, decide again, and send its new `ETag` if it has one.";
    StockExists "stock_exists" 409 FixTheCall "The SKU exists with another initial stock"
        "Change the supply of a known SKU with an adjustment.";
    InitialRequired "initial_required" 422 FixTheCall "A new SKU needs its initial stock"
        "Send `initial`.";
    TooManySkus "too_many_skus" 409 FixTheCall "The sale has all the SKUs it can have"
        "Spread the SKUs over several sales: one holds at most 10,000.";
    TooManyUnits "too_many_units" 409 FixTheCall "The sale has all the units it can have"
        "One sale holds at most 1,000,000,000,000 units.";
    HoldTooLong "hold_too_long" 422 FixTheCall "The hold would last too long"
        "Ask for a deadline no later than `extendable_until`.";
    BuyerRequired "buyer_required" 422 FixTheCall "A buyer must be named"
        "A limit applies to what was asked for: send `buyer`.";
    BuyerHolds "buyer_holds" 409 Show "The buyer has too many open holds"
        "Let the buyer confirm or release a hold first.";
    BuyerLimit "buyer_limit" 409 Show "The buyer has all the units one buyer may have"
        "Show the limit.";
    SoldOut "sold_out" 409 Show "Not enough units are left"
        "Show that it is sold out. Where `may_return` is true, units are still held by others and may come back \
         at `retry_at`; the same key may be used again. After a payment: refund.";
    IdempotencyKeyReused "idempotency_key_reused" 422 NewKey "The idempotency key was used with another request"
        "Send the first request again to get its answer, or use a new key for the new one.";
    IdempotencyKeyRequired "idempotency_key_required" 400 FixTheCall "An idempotency key is needed"
        "A return of single lines is not safe to repeat without an `Idempotency-Key`.";
    IdempotencyKeyInvalid "idempotency_key_invalid" 400 FixTheCall "The idempotency key is not valid"
        "Send one `Idempotency-Key` of 1-255 printable ASCII characters, bare or in double quotes, and no parameters.";
    HoldExpired "hold_expired" 410 Refund "The hold has expired"
        "Reserve again with a new key. Where the money was taken: confirm with `\"if_expired\":\"retake\"`, or refund.";
    AlreadyConfirmed "already_confirmed" 409 FixTheCall "The reservation is confirmed"
        "It is sold: give units back with return.";
    AlreadyReleased "already_released" 409 Refund "The reservation was released"
        "The units were given back. Reserve again with a new key; where the money was taken, refund.";
    AlreadyReturned "already_returned" 409 NewKey "The reservation was returned"
        "The units were sold and returned. Reserve again with a new key.";
    NotConfirmed "not_confirmed" 409 FixTheCall "Only confirmed units can be returned"
        "Release a hold instead.";
    PartOfOrder "part_of_order" 409 FixTheCall "The reservation is a part of an order"
        "Call the order: its parts move together.";
    QuantityExceedsReservation "quantity_exceeds_reservation" 422 FixTheCall "More units than the reservation has"
        "Ask for no more than the reservation's lines have left.";
    InsufficientAvailable "insufficient_available" 409 FixTheCall "Not enough units are available"
        "Take away no more than `level.available`: held and sold units stay.";
    GrantedChanged "granted_changed" 409 FixTheCall "The supply is not what the caller expects"
        "Read `level`, decide again, and send its `granted` as `if_granted`.";
    CursorExpired "cursor_expired" 410 FixTheCall "The cursor is older than the events that are kept"
        "Read the present state, then go on with `oldest` as `after`; null: without `after`.";
    MalformedJson "malformed_json" 400 FixTheCall "The body is not JSON"
        "Send one complete JSON document.";
    InvalidRequest "invalid_request" 422 FixTheCall "The request is not valid"
        "Correct the fields that `errors` names.";
    UnsupportedMediaType "unsupported_media_type" 415 FixTheCall "The body must be JSON"
        "Send `Content-Type: application/json`, in UTF-8 and not compressed.";
    PayloadTooLarge "payload_too_large" 413 FixTheCall "The body is too large"
        "Bodies hold at most 64 KB, those of PUT sale and of bulk 1 MB: split the call.";
    RequestTimeout "request_timeout" 408 RetrySameKey "The body came too slowly"
        "Nothing was done. Send the request again with the same key.";
    Unauthorized "unauthorized" 401 FixTheCall "A key is needed"
        "Send `Authorization: Bearer <id>.<secret>` with a key that `stockade keys` made and nobody revoked.";
    Forbidden "forbidden" 403 FixTheCall "This caller may not do this"
        "Use a key with a scope that the operation names. Where there are no keys: pages of other sites may not \
         change anything.";
    MisdirectedRequest "misdirected_request" 421 FixTheCall "This host is not served here"
        "Call it as localhost or by its address, or allow the name of `Host` with `--allowed-host`.";
    NotFound "not_found" 404 FixTheCall "No such path"
        "See /openapi.json for the paths there are.";
    MethodNotAllowed "method_not_allowed" 405 FixTheCall "The path does not know this method"
        "Use a method that `Allow` names.";
    RateLimited "rate_limited" 429 RetrySameKey "This caller sends too many requests"
        "Nothing was done. Send the request again with the same key after `Retry-After`. Operator: see `--rate-limit`.";
    QueueFull "queue_full" 503 RetrySameKey "Too many requests are waiting"
        "Nothing was done. Send the request again with the same key after `Retry-After`.";
    OrderBusy "order_busy" 503 RetrySameKey "Other orders have the sales"
        "Nothing was done. Send the request again with the same key after `Retry-After`.";
    OrderInProgress "order_in_progress" 503 RetrySameKey "An earlier call about this order is not finished"
        "This call did nothing. Send the request again with the same key after `Retry-After`.";
    Draining "draining" 503 RetrySameKey "This process is stopping"
        "Nothing was done. Send the request again with the same key: another process will answer.";
    TooManyStreams "too_many_streams" 503 RetrySameKey "This process serves all the streams it may"
        "Try again after `Retry-After`: another process may have room. Operator: see `--event-streams-max`.";
    StoreFull "store_full" 503 RetrySameKey "The store is out of memory"
        "Nothing was done. Operator: give Redis more memory, or shorten retentions.";
    StoreUnavailable "store_unavailable" 503 RetrySameKey "The store cannot be reached"
        "Nothing was done. Send the request again with the same key after `Retry-After`.";
    StoreReadOnly "store_read_only" 503 RetrySameKey "The store does not take writes"
        "Nothing was done. Operator: Redis is a replica, lacks replicas, or cannot write to its disk.";
    StoreBusy "store_busy" 503 RetrySameKey "The store is busy"
        "Nothing was done. Send the request again with the same key after `Retry-After`.";
    StoreLoading "store_loading" 503 RetrySameKey "The store is loading its data"
        "Nothing was done. Send the request again with the same key after `Retry-After`.";
    SlotMoving "slot_moving" 503 RetrySameKey "This sale is on its way to another server"
        "Nothing was done. Send the request again with the same key after `Retry-After`.";
    OutcomeUnknown "outcome_unknown" 503 RetrySameKey "The outcome is not known"
        "It may have been done. Send the request again with the same key to find out: it has one effect at most.";
    Corrupt "corrupt" 500 CallTheOperator "A record of the store is damaged"
        "Nothing was done. Operator: see the log line of this request id.";
    Internal "internal" 500 CallTheOperator "A fault of this service"
        "It may have been done. Operator: see the log line of this request id.";
}

impl Code {
    /// Whether the same request with the same key may be sent again as it is, without asking anybody.
    pub fn retryable(self) -> bool {
        self.remedy() == Remedy::RetrySameKey
    }

    /// For a 5xx: whether the request took effect, `not_applied` or `unknown`.
    pub fn outcome(self) -> Option<&'static str> {
        match self {
            Self::OutcomeUnknown | Self::Internal => Some("unknown"),
            _ if self.status() >= 500 => Some("not_applied"),
            _ => None,
        }
    }

    /// The code that has this word.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.as_str() == word)
    }
}
