//! What Aurora DSQL costs, from the one file that holds prices.

use std::sync::LazyLock;

use serde::Deserialize;

/// The price list.
#[derive(Debug, Deserialize)]
pub(crate) struct Prices {
    pub free_dpu_a_month: u64,
    regions: Vec<Price>,
}

/// The price in one region.
#[derive(Debug, Deserialize)]
pub(crate) struct Price {
    pub region: String,
    pub usd_per_million_dpu: f64,
    pub as_of: String,
    pub source: String,
}

impl Prices {
    /// The price in a region, where it is known.
    pub(crate) fn of(&self, region: &str) -> Option<&Price> {
        self.regions.iter().find(|price| price.region == region)
    }
}

/// The price list. A test reads it, so that it is never found broken here.
pub(crate) static PRICES: LazyLock<Prices> = LazyLock::new(|| {
    serde_json::from_str(include_str!("prices.json")).unwrap_or(Prices {
        free_dpu_a_month: 0,
        regions: Vec::new(),
    })
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_price_list_reads() {
        assert!(serde_json::from_str::<Prices>(include_str!("prices.json")).is_ok());
        assert_eq!(PRICES.of("us-east-1").unwrap().usd_per_million_dpu, 8.0);
        assert!(PRICES.of("nowhere").is_none());
    }
}
