//! Histograms, outcome counts, intervals, merging and confidence. (Chapter to
//! be completed by the crate's author.)

mod hist;
mod result;

pub use hist::Hist;
pub use result::*;
