//! Bodies of AAP v3, shared by server and client. Unknown members are ignored.

pub mod error;
pub mod meta;
pub mod session;
pub mod turn;
