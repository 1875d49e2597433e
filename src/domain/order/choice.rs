//! Which alternatives the lines of an order take.

use super::OrderLineRequest;
use crate::domain::id::Sku;
use std::collections::BTreeMap;

/// Steps that the search for a choice takes at most: more than 20 lines with few alternatives ever need.
const CHOICE_STEPS_MAX: usize = 20_000;

/// Which of its SKUs each line takes, 0 for the one that it asks for, so that all lines fit what is available: the first
/// line has the best it can have, then the second, and so on. None: there is no such choice, or none was found in
/// `CHOICE_STEPS_MAX` steps (with ten alternatives for twenty lines there can be more than anybody can try).
pub fn choose(lines: &[&OrderLineRequest], available: &BTreeMap<Sku, u64>) -> Option<Vec<usize>> {
    let mut left = available.clone();
    let mut chosen = Vec::with_capacity(lines.len());
    let mut steps = 0;
    search(lines, &mut left, &mut chosen, &mut steps).then_some(chosen)
}

fn search(
    lines: &[&OrderLineRequest],
    left: &mut BTreeMap<Sku, u64>,
    chosen: &mut Vec<usize>,
    steps: &mut usize,
) -> bool {
    let Some(line) = lines.get(chosen.len()) else { return true };
    let units = line.quantity.units();
    for n in 0..line.sku_count() {
        *steps += 1;
        if *steps > CHOICE_STEPS_MAX {
            return false;
        }
        match left.get_mut(line.sku_at(n)) {
            Some(there) if *there >= units => *there -= units,
            _ => continue,
        }
        chosen.push(n);
        if search(lines, left, chosen, steps) {
            return true;
        }
        chosen.pop();
        if let Some(there) = left.get_mut(line.sku_at(n)) {
            *there += units;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::order::{ORDER_LINES_MAX, OrderRequest};
    use crate::domain::quantity::Quantity;

    fn line(text: &str) -> OrderLineRequest {
        let mut words = text.split(' ');
        let mut next = || words.next().unwrap();
        let quantity = Quantity::new(next().parse().unwrap()).unwrap();
        let sku = next().parse().unwrap();
        let alternatives = words.map(|sku| sku.parse().unwrap()).collect();
        OrderLineRequest { sale: "s".parse().unwrap(), sku, quantity, alternatives }
    }

    /// The SKUs that the lines take of what is there.
    fn taken(lines: &[&str], available: &[(&str, u64)]) -> Option<Vec<String>> {
        let lines: Vec<OrderLineRequest> = lines.iter().map(|text| line(text)).collect();
        let lines: Vec<&OrderLineRequest> = lines.iter().collect();
        let available = available.iter().map(|(sku, units)| (sku.parse().unwrap(), *units)).collect();
        let chosen = choose(&lines, &available)?;
        Some(lines.iter().zip(chosen).map(|(line, n)| line.sku_at(n).to_string()).collect())
    }

    #[test]
    fn each_line_has_the_best_that_leaves_the_others_enough() {
        assert_eq!(taken(&["1 red blue", "1 red"], &[("red", 2), ("blue", 1)]).unwrap(), ["red", "red"]);
        assert_eq!(taken(&["1 red blue", "1 red"], &[("red", 1), ("blue", 1)]).unwrap(), ["blue", "red"]);
        assert_eq!(
            taken(&["2 red blue green"], &[("red", 1), ("blue", 1), ("green", 2)]).unwrap(),
            ["green"]
        );
        assert_eq!(taken(&["1 red blue", "1 red"], &[("red", 1), ("blue", 0)]), None);
        assert_eq!(taken(&["1 red"], &[]), None);
        let three = ["3 a b", "2 a b", "1 a"];
        assert_eq!(taken(&three, &[("a", 3), ("b", 3)]).unwrap(), ["b", "a", "a"]);
    }

    #[test]
    fn the_search_ends() {
        let skus: Vec<String> = (0..11).map(|n| format!("s{n}")).collect();
        let lines = vec![format!("2 {}", skus.join(" ")); ORDER_LINES_MAX];
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        let available: Vec<(&str, u64)> = skus.iter().map(|sku| (sku.as_str(), 3)).collect();
        assert_eq!(taken(&lines, &available), None, "eleven lines fit, and twenty are asked for");
    }

    #[test]
    fn what_an_order_asks_for_is_checked() {
        let request = |lines: Vec<OrderLineRequest>| OrderRequest {
            buyer: None,
            lines,
            hold_seconds: None,
            reference: None,
            metadata: None,
        };
        let field = |lines| request(lines).check().unwrap_err().field;
        assert!(request(vec![line("1 a b c")]).check().is_ok());
        assert_eq!(field(Vec::new()), "/lines");
        assert_eq!(field(vec![line("1 a"); 21]), "/lines");
        assert_eq!(field(vec![line("1 a"), line("1 a b b")]), "/lines/1/alternatives");
        assert_eq!(field(vec![line("1 a a")]), "/lines/0/alternatives");
        assert_eq!(field(vec![line("1 a b c d e f g h i j k l")]), "/lines/0/alternatives");
    }
}
