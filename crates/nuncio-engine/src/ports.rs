//! Traits that the engine needs from its environment. The engine opens no file or connection and gets time and
//! randomness only from these traits.

pub mod brain;
pub mod bus;
pub mod clock;
pub mod dial;
pub mod entropy;
pub mod fetch;
pub mod meter;
pub mod runner;
pub mod store;

pub use brain::Brain;
pub use bus::Bus;
pub use clock::Clock;
pub use dial::WebSocketDialer;
pub use entropy::Entropy;
pub use fetch::Fetch;
pub use meter::Meter;
pub use runner::Runner;
pub use store::Store;
