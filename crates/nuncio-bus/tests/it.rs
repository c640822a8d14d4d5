//! Contract tests of the bus within one process.

use std::sync::Arc;

use nuncio_bus::LocalBus;

nuncio_bus::bus_contract!(Arc::new(LocalBus::new()));
