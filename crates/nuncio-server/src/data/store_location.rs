//! Where the store is: in the data directory, or in a PostgreSQL database.

use std::path::Path;

use nuncio_core::ErrorCode;
use nuncio_store::dump::{StoreSnapshot, StoreTarget};
use nuncio_store::{PostgresAddress, PostgresSnapshot, PostgresTarget, SqliteSnapshot, SqliteTarget};

use super::DataDir;
use crate::error::OperatorError;
use crate::settings::Settings;

#[derive(Debug, Clone, Default)]
pub enum StoreLocation {
    /// `nuncio.db` in the data directory.
    #[default]
    DataDirectory,
    Postgres(Box<PostgresAddress>),
}

impl StoreLocation {
    /// The store at an address, or the one in the data directory if there is none. An empty address counts as none.
    pub fn parse(address: Option<&str>) -> Result<Self, OperatorError> {
        let Some(address) = address.map(str::trim).filter(|address| !address.is_empty()) else {
            return Ok(Self::DataDirectory);
        };
        let parsed = PostgresAddress::parse(address, |name| std::env::var(name).ok());
        let wrong = |why| OperatorError::new(ErrorCode::ConfigInvalid, format!("--store: {why}"));
        Ok(Self::Postgres(Box::new(parsed.map_err(wrong)?)))
    }

    /// The store that an operator chose for a command: with `--store` or `NUNCIO_STORE`, or else with `store` in the
    /// settings of the data directory's server. A faulty settings file is reported when that server starts.
    pub fn chosen(address: Option<&str>, data: &Path) -> Result<Self, OperatorError> {
        if address.is_some() {
            return Self::parse(address);
        }
        let named = std::env::var_os("NUNCIO_CONFIG").map(std::path::PathBuf::from);
        let file = named.unwrap_or_else(|| data.join("nuncio.toml"));
        let settings = Settings::load(&file, false, |name| std::env::var(name).ok()).unwrap_or_default();
        Self::parse(settings.store.as_deref())
    }

    /// The store as it is now, for a data directory. Other processes may use it.
    pub(crate) async fn snapshot(&self, data: &Path) -> Result<Box<dyn StoreSnapshot>, OperatorError> {
        Ok(match self {
            Self::DataDirectory => Box::new(SqliteSnapshot::open(&data.join(DataDir::DATABASE))?),
            Self::Postgres(address) => Box::new(PostgresSnapshot::open((**address).clone()).await?),
        })
    }

    /// The store to be filled by a copy, for a data directory. It is created if there is none.
    pub(crate) async fn target(&self, data: &Path) -> Result<Box<dyn StoreTarget>, OperatorError> {
        Ok(match self {
            Self::DataDirectory => Box::new(SqliteTarget::open(&data.join(DataDir::DATABASE))?),
            Self::Postgres(address) => Box::new(PostgresTarget::open((**address).clone()).await?),
        })
    }

    /// The place of the store, for a data directory, without a password.
    pub(crate) fn place(&self, data: &Path) -> String {
        match self {
            Self::DataDirectory => data.display().to_string(),
            Self::Postgres(address) => address.to_string(),
        }
    }

    pub(crate) fn is_in_data_directory(&self) -> bool {
        matches!(self, Self::DataDirectory)
    }
}
