//! The fleet from the command's side: a whole one in this process
//! ([`embedded`], for `fabric run --workers`), and the deployed one
//! ([`deployed`], for `fabric fleet`), looked at by [`watch`].

pub mod deployed;
pub mod embedded;
pub mod watch;
