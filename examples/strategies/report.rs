//! The table and the chart.

use crate::buy::Strategy;
use crate::till::Tally;
use std::fmt::Write;

/// What one strategy did.
pub struct Row {
    /// Which.
    pub strategy: Strategy,
    /// Buyers who were told that a unit is theirs.
    pub sold: u32,
    /// Units that were sold and not there.
    pub oversold: u32,
    /// What the counter says is sold.
    pub counted: i64,
    /// Purchases a second.
    pub rate: f64,
    /// Tries that came to nothing.
    pub retries: u64,
    /// 99 of 100 buyers had their receipt within this.
    pub p99_ms: f64,
}

/// Head of the table.
pub const HEAD: &str =
    "   strategy                          sold  oversold  counter  purchases/s  retries   p99 ms";

/// What the columns are.
pub const LEGEND: &str = "\
sold         buyers who were told that a unit is theirs
oversold     those of them for whom there was none
counter      what the store believes is sold
purchases/s  until nine of ten receipts were given
retries      tries that came to nothing: lock taken, lease run out, somebody else wrote first
p99          from a buyer's turn to his receipt: work, waiting and retries are in it; buyers without receipt are not";

impl Row {
    /// From what tasks saw.
    pub fn new(strategy: Strategy, stock: u32, counted: i64, mut tally: Tally) -> Self {
        let sold = tally.receipts.len();
        tally.receipts.sort_by_key(|receipt| receipt.at_us);
        // The last ones belong to whose work was slow.
        let most = (sold * 9).div_ceil(10);
        let most_us = tally.receipts[..most].last().map_or(0, |receipt| receipt.at_us);
        let mut took: Vec<u64> = tally.receipts.iter().map(|receipt| receipt.took_us).collect();
        took.sort_unstable();
        let p99_us = took.get((sold * 99).div_ceil(100).saturating_sub(1)).copied().unwrap_or_default();
        Self {
            strategy,
            sold: sold as u32,
            oversold: (sold as u32).saturating_sub(stock),
            counted,
            rate: most as f64 * 1e6 / most_us.max(1) as f64,
            retries: tally.retries,
            p99_ms: p99_us as f64 / 1000.0,
        }
    }

    /// As it must be: it oversells, or sells exactly what is there, and the counter knows.
    pub fn is_as_said(&self, stock: u32) -> bool {
        match self.strategy.oversells() {
            true => self.oversold > 0,
            false => self.sold == stock && self.counted == i64::from(stock),
        }
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { strategy, sold, oversold, counted, rate, retries, p99_ms } = self;
        let title = strategy.title();
        write!(f, "{title:<33} {sold:>7} {oversold:>9} {counted:>8} {rate:>12.0} {retries:>8} {p99_ms:>8.1}")
    }
}

// Colours that can be read on white and on black.
const TEXT: &str = "#75797f";
const GRID: &str = "#75797f55";
const HOLDS: &str = "#2b84d8";
const OVERSELLS: &str = "#e0403e";

const LABELS: f64 = 250.0;
const BARS: f64 = 300.0;
const WIDTH: f64 = 720.0;
const ROW: f64 = 30.0;
const TOP: f64 = 58.0;

/// Bars of purchases a second, on a logarithmic scale.
pub fn chart(rows: &[Row], about: &str) -> String {
    // A bar begins below half of the smallest rate: it can be seen.
    let rates = || rows.iter().map(|row| row.rate.max(1.0));
    let low = (rates().fold(f64::MAX, f64::min) / 2.0).log10().floor().max(0.0);
    let high = rates().fold(1.0, f64::max).log10().ceil().max(low + 1.0);
    let x = |exponent: f64| LABELS + BARS * (exponent - low) / (high - low);
    let bottom = TOP + ROW * rows.len() as f64;
    let height = bottom + 34.0;
    let mut svg = String::new();
    let mut put = |element: String| {
        let _ = writeln!(svg, "{element}"); // to a string: cannot fail
    };
    put(format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" font-family="system-ui, sans-serif" font-size="13" fill="{TEXT}">"#
    ));
    put("<title>Strategies to buy one hot SKU: purchases a second, and units oversold</title>".into());
    put(format!(
        r#"<text x="0" y="16" font-size="15" font-weight="600">Purchases a second <tspan font-weight="400">(logarithmic; </tspan><tspan fill="{OVERSELLS}">red: sold more than there was</tspan><tspan font-weight="400">)</tspan></text>"#
    ));
    put(format!(r#"<text x="0" y="36">{about}</text>"#));
    for exponent in low as i32..=high as i32 {
        let (at, number) = (x(f64::from(exponent)), 10_f64.powi(exponent));
        put(format!(r#"<path d="M{at:.1} {TOP}V{bottom}" stroke="{GRID}"/>"#));
        put(format!(r#"<text x="{at:.1}" y="{:.1}" text-anchor="middle">{number}</text>"#, bottom + 18.0));
    }
    for (n, row) in rows.iter().enumerate() {
        let (y, end) = (TOP + ROW * n as f64, x(row.rate.max(1.0).log10()));
        let (colour, oversold) = match row.oversold {
            0 => (HOLDS, String::new()),
            units => (
                OVERSELLS,
                format!(r#"<tspan dx="10" fill="{OVERSELLS}" font-weight="600">{units} oversold</tspan>"#),
            ),
        };
        let (letter, words) = row.strategy.title().split_at(1);
        put(format!(
            r#"<text x="0" y="{0:.1}">{letter}</text><text x="20" y="{0:.1}">{1}</text>"#,
            y + 19.0,
            words.trim_start()
        ));
        let width = (end - LABELS).max(1.0);
        put(format!(
            r#"<rect x="{LABELS}" y="{:.1}" width="{width:.1}" height="{:.1}" rx="2" fill="{colour}"/>"#,
            y + 5.0,
            ROW - 10.0
        ));
        let label = LABELS + width + 8.0;
        put(format!(r#"<text x="{label:.1}" y="{:.1}">{:.0}{oversold}</text>"#, y + 19.0, row.rate));
    }
    put("</svg>".into());
    svg
}
