//! The simulated database without its wire: SQL in, rows out, optimistic
//! commits. (Chapter below, once the parts are in place.)

mod adjudicate;
mod catalog;
mod engine;
mod error;
mod jobs;
mod meter;
mod pgcatalog;
mod session;
mod sql;
mod statement;
mod storage;
mod txn;
mod types;
mod value;

pub use engine::{Engine, Limits};
pub use error::SqlError;
pub use meter::Meter;
pub use session::{
    Column, Executed, PendingCommit, Prepared, Session, TransactionStatus, Work, WorkKind,
};
pub use sql::parse::Parsed;
pub use types::Type;
pub use value::{Array, Interval, Numeric, Value};
