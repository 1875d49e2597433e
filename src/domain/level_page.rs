//! Pages of levels by rank, and the lists that are cut from them.
//!
//! A page is kept as the JSON that is served, so that a list of any length after any name is one copy of its bytes.

use super::id::Sku;
use super::page::PageRequest;
use super::stock::Level;

/// SKUs of one page.
pub const LEVELS_OF_A_PAGE: usize = 250;

/// Which SKUs a sale had. They are only added, so as many in the same incarnation are the same, at the same ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkuSet {
    /// The incarnation of the sale.
    pub generation: String,
    /// How many there are.
    pub count: usize,
}

/// The levels of ranks `number * 250` and up, as they were at one moment.
#[derive(Debug)]
pub struct LevelPage {
    /// The SKUs that it is a page of.
    pub skus: SkuSet,
    number: usize,
    names: Vec<Sku>,
    /// Where in `json` each level ends; the next begins one comma later.
    ends: Vec<usize>,
    json: Vec<u8>,
}

impl LevelPage {
    /// Page `number` of a set of SKUs, written as JSON once. Errors if a level cannot be written.
    pub fn new(skus: SkuSet, number: usize, levels: Vec<Level>) -> Result<Self, serde_json::Error> {
        let mut page = Self { skus, number, names: Vec::new(), ends: Vec::new(), json: Vec::new() };
        for level in levels {
            if !page.json.is_empty() {
                page.json.push(b',');
            }
            serde_json::to_writer(&mut page.json, &level)?;
            page.ends.push(page.json.len());
            page.names.push(level.sku);
        }
        Ok(page)
    }

    /// Bytes that it takes in memory, about.
    pub fn weight(&self) -> usize {
        let names: usize = self.names.iter().map(|name| name.as_str().len() + size_of::<Sku>()).sum();
        names + self.ends.len() * size_of::<usize>() + self.json.len()
    }

    fn is_last(&self) -> bool {
        (self.number + 1) * LEVELS_OF_A_PAGE >= self.skus.count
    }

    /// The JSON of some levels in a row.
    fn cut(&self, from: usize, to: usize) -> &[u8] {
        let begin = if from == 0 { 0 } else { self.ends[from - 1] + 1 };
        &self.json[begin..self.ends[to - 1]]
    }
}

/// What a list still needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The page after the last one.
    NextPage,
    /// Nothing: it has all there is, or all that was asked for.
    Nothing,
    /// Another way: the pages do not fit together, since SKUs were added between them.
    Anew,
}

/// A list of levels that is being cut from pages, in their order.
#[derive(Debug)]
pub struct LevelList<'a> {
    request: &'a PageRequest,
    skus: Option<SkuSet>,
    json: Vec<u8>,
    count: usize,
    last: Option<Sku>,
}

impl<'a> LevelList<'a> {
    /// Nothing of it yet.
    pub fn new(request: &'a PageRequest) -> Self {
        Self { request, skus: None, json: b"{\"items\":[".to_vec(), count: 0, last: None }
    }

    /// Takes what it can use of a page: the one that `after` is in, or should be in, then the ones after it.
    pub fn take(&mut self, page: &LevelPage) -> Need {
        let after = self.request.after.as_deref().unwrap_or_default();
        let begins_at_or_before_cursor =
            || page.number == 0 || page.names.first().is_some_and(|first| first.as_str() <= after);
        let fits = match &self.skus {
            None => begins_at_or_before_cursor(),
            Some(skus) => *skus == page.skus,
        };
        if !fits {
            return Need::Anew;
        }
        self.skus = Some(page.skus.clone());
        let from = page.names.partition_point(|name| name.as_str() <= after);
        let to = page.names.len().min(from + self.request.limit - self.count);
        if from < to {
            if self.count > 0 {
                self.json.push(b',');
            }
            self.json.extend_from_slice(page.cut(from, to));
            self.count += to - from;
            self.last = Some(page.names[to - 1].clone());
        }
        if self.count == self.request.limit || page.is_last() { Need::Nothing } else { Need::NextPage }
    }

    /// The list as JSON, as `Page<Level>` is.
    pub fn into_json(mut self) -> Vec<u8> {
        self.json.extend_from_slice(b"],\"next\":");
        match self.last.filter(|_| self.count == self.request.limit) {
            // No name holds what JSON would escape.
            Some(last) => self.json.extend_from_slice(format!("\"{last}\"}}").as_bytes()),
            None => self.json.extend_from_slice(b"null}"),
        }
        self.json
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Page, Timestamp};

    fn level(name: &str) -> Level {
        let sku = name.parse().unwrap();
        let as_of = Timestamp::from_ms(1_796_061_600_000).unwrap();
        Level { sku, available: 1, held: 2, sold: 3, granted: 6, buyer_limit: None, as_of }
    }

    /// Every page of a sale with these SKUs.
    fn pages(names: &[String]) -> Vec<LevelPage> {
        let skus = SkuSet { generation: "g".into(), count: names.len() };
        let page = |(number, names): (usize, &[String])| {
            let levels = names.iter().map(|name| level(name)).collect();
            LevelPage::new(skus.clone(), number, levels).unwrap()
        };
        let mut pages: Vec<_> = names.chunks(LEVELS_OF_A_PAGE).enumerate().map(page).collect();
        if pages.is_empty() {
            pages.push(page((0, &[])));
        }
        pages
    }

    fn list(pages: &[LevelPage], first: usize, request: &PageRequest) -> Option<Vec<u8>> {
        let mut list = LevelList::new(request);
        for page in &pages[first..] {
            match list.take(page) {
                Need::NextPage => {}
                Need::Nothing => return Some(list.into_json()),
                Need::Anew => return None,
            }
        }
        panic!("the last page is not known as such");
    }

    fn names(count: usize) -> Vec<String> {
        (0..count).map(|n| format!("s{n:04}")).collect()
    }

    #[test]
    fn a_list_is_what_a_serialised_page_is() {
        for count in [0, 1, 249, 250, 251, 500, 760] {
            let (names, limits) = (names(count), [1, 7, 250, 251, 500]);
            let pages = pages(&names);
            for limit in limits {
                for from in (0..=count).step_by(83) {
                    let after = from.checked_sub(1).map(|before| names[before].clone());
                    let request = PageRequest { limit, after };
                    let items: Vec<Level> =
                        names[from..].iter().take(limit).map(|name| level(name)).collect();
                    let next = items.last().filter(|_| items.len() == limit).map(|last| last.sku.to_string());
                    let expected = serde_json::to_vec(&Page { items, next }).unwrap();
                    let first = from.saturating_sub(1) / LEVELS_OF_A_PAGE;
                    assert_eq!(
                        list(&pages, first, &request),
                        Some(expected),
                        "{limit} of {count} from {from}"
                    );
                }
            }
        }
    }

    #[test]
    fn pages_of_two_sets_of_skus_make_no_list() {
        let (old, new) = (pages(&names(500)), pages(&[&["a".into()], &names(500)[..]].concat()));
        // The old second page begins behind what the new first one has pushed over the edge.
        let request = PageRequest { limit: 500, after: None };
        let mut list = LevelList::new(&request);
        assert_eq!(list.take(&new[0]), Need::NextPage);
        assert_eq!(list.take(&old[1]), Need::Anew);
        // A cursor that is not in the page where it should be.
        let request = PageRequest { limit: 5, after: Some("s0248".into()) };
        assert_eq!(LevelList::new(&request).take(&old[1]), Need::Anew);
        assert_eq!(LevelList::new(&request).take(&new[1]), Need::Anew);
        let request = PageRequest { limit: 5, after: Some("s0249".into()) };
        assert_eq!(LevelList::new(&request).take(&new[1]), Need::Nothing);
    }
}
