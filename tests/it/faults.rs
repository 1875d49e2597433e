//! The real process under load, while it, its Redis or its clients are killed, frozen and stopped.
//!
//! Each test prints its seed; `STOCKADE_FAULT_SEED=n` runs the same choices again (not the same moments: the machine
//! has its say too). `STOCKADE_FAULT_SECONDS` is how long each of the random ones goes on.

mod barriers;
mod books;
mod clients;
mod cluster;
mod driver;
mod folders;
mod frozen;
mod history;
mod kills;
mod shutdown;
mod slow;
mod starts;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use std::time::{Duration, Instant};

const SECONDS: u64 = 8;
/// However slow the machine is.
const FAULTS_MIN: usize = 3;

/// Choices that can be made again, and the time to make them in.
struct Chance {
    rng: StdRng,
    seed: u64,
    until: Instant,
    faults: usize,
}

impl Chance {
    fn new(test: &str) -> Self {
        let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect(name));
        let seed = number("STOCKADE_FAULT_SEED").unwrap_or_else(rand::random);
        let seconds = number("STOCKADE_FAULT_SECONDS").unwrap_or(SECONDS);
        println!("{test}: STOCKADE_FAULT_SEED={seed}");
        let until = Instant::now() + Duration::from_secs(seconds);
        Self { rng: StdRng::seed_from_u64(seed), seed, until, faults: 0 }
    }

    /// Whether there is time for another fault.
    fn goes_on(&self) -> bool {
        self.faults < FAULTS_MIN || Instant::now() < self.until
    }

    /// How many more calls are answered before the next fault.
    fn calls_until_fault(&mut self) -> usize {
        self.faults += 1;
        self.rng.random_range(1..200)
    }
}
