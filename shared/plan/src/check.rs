//! What must hold between several parameters of a cell, and is refused before
//! anything starts. What holds for one alone is its type's (`keys`).

use crate::cell::{AppendParams, Distribution, OrderTransferParams, Params, Retry};
use crate::error::grouped;
use crate::file::{MAX_CONNECTIONS, MAX_RECORDS, MAX_ROWS, MAX_TRANSACTION_BYTES};
use crate::share::LoadShape;

/// Parameters that do not fit each other.
#[derive(Debug)]
pub(crate) struct Misfit {
    /// The keys that they come from, the likeliest to be wrong first.
    pub keys: &'static [&'static str],
    /// What is wrong and what would be accepted.
    pub problem: String,
}

type Checked = Result<(), Misfit>;

fn refuse(keys: &'static [&'static str], problem: String) -> Checked {
    Err(Misfit { keys, problem })
}

/// Checks a cell's parameters against each other.
pub(crate) fn check(params: &Params) -> Checked {
    match params {
        Params::Append(params) => append(params)?,
        Params::OrderTransfer(order) => {
            order_transfer(order)?;
            clients(&params.shape())?;
        }
        Params::Tpcb(_) => clients(&params.shape())?,
    }
    retry(params.shape().retry)
}

fn append(params: &AppendParams) -> Checked {
    let (writers, streams) = (u64::from(params.writers), u64::from(params.streams));
    if writers * streams > MAX_CONNECTIONS {
        return refuse(
            &["writers", "streams"],
            format!(
                "{} writers x {} streams need {} connections; a cluster takes {}, so lower one of them",
                grouped(writers),
                grouped(streams),
                grouped(writers * streams),
                grouped(MAX_CONNECTIONS)
            ),
        );
    }
    // Rows need no check: the largest batch and the head are 101 of 3,000.
    let bytes = u64::from(params.batch) * u64::from(params.payload_bytes);
    if bytes > MAX_TRANSACTION_BYTES {
        return refuse(
            &["payload_bytes", "batch"],
            format!(
                "batch {} x payload_bytes {} puts {} bytes into a transaction; it takes {} (10 MiB), so lower one of them",
                params.batch,
                grouped(params.payload_bytes.into()),
                grouped(bytes),
                grouped(MAX_TRANSACTION_BYTES)
            ),
        );
    }
    let Some(records) = params.records else {
        return Ok(());
    };
    if records < writers {
        return refuse(
            &["records", "writers"],
            format!(
                "{} records leave some of {} writers without a share; give at least as many records as writers",
                grouped(records),
                grouped(writers)
            ),
        );
    }
    if records * streams > MAX_RECORDS {
        return refuse(
            &["records", "streams"],
            format!(
                "{} records x {} streams are {} in one rep; at most {}, so lower one of them",
                grouped(records),
                grouped(streams),
                grouped(records * streams),
                grouped(MAX_RECORDS)
            ),
        );
    }
    Ok(())
}

fn order_transfer(params: &OrderTransferParams) -> Checked {
    let products = u64::from(params.products);
    if params.items > params.products {
        return refuse(
            &["items", "products"],
            format!(
                "an order of {} items asks for more products than the {} there are; give at most that many items, or more products",
                params.items,
                grouped(products)
            ),
        );
    }
    if params.distribution == Distribution::Hot && products < 2 {
        return refuse(
            &["products", "distribution"],
            "more hot keys than keys: 80% of the requests are for the hot product and 20% for others, of which there is none; give at least 2 products, or `uniform`".to_owned(),
        );
    }
    let rows_each = u64::from(params.inventory_shards);
    if let Some(stock) = params.stock
        && rows_each > stock
    {
        return refuse(
            &["inventory_shards", "stock"],
            format!(
                "a stock of {} cannot be split over {} rows with a piece in each; lower inventory_shards or raise stock",
                grouped(stock),
                grouped(rows_each)
            ),
        );
    }
    let rows = products * rows_each + u64::from(params.accounts);
    if rows > MAX_ROWS {
        return refuse(
            &["inventory_shards", "products", "accounts"],
            format!(
                "{} products x {} inventory_shards and {} accounts are {} rows to prepare for each repetition; at most {}, so lower one of them",
                grouped(products),
                grouped(rows_each),
                grouped(params.accounts.into()),
                grouped(rows),
                grouped(MAX_ROWS)
            ),
        );
    }
    Ok(())
}

/// Clients that share a number of operations.
fn clients(shape: &LoadShape<'_>) -> Checked {
    match shape.operations {
        Some(operations) if operations < u64::from(shape.writers) => refuse(
            &["operations", "concurrency"],
            format!(
                "{} operations leave some of {} clients without a share; give at least as many operations as clients",
                grouped(operations),
                grouped(shape.writers.into())
            ),
        ),
        _ => Ok(()),
    }
}

fn retry(retry: &Retry) -> Checked {
    let Retry {
        base_ms, cap_ms, ..
    } = retry;
    if base_ms > cap_ms {
        return refuse(
            &["retry.base_ms", "retry.cap_ms"],
            format!("base_ms {base_ms} is over cap_ms {cap_ms}; lower base_ms or raise cap_ms"),
        );
    }
    Ok(())
}
