//! `run = { device = … }`: a tool that runs on a person's device, with their consent.

use toml::de::DeValue;

use crate::reader::LocatedTomlValue;
use crate::scopes::{i18n_key, local_text};
use nuncio_core::agent::DeviceRunSpec;

pub(super) fn read(item: &LocatedTomlValue<'_>) -> Option<DeviceRunSpec> {
    match item.value {
        DeValue::Boolean(true) => Some(DeviceRunSpec::default()),
        DeValue::Table(_) => {
            let table = item.table()?;
            let required = table.flag("required").unwrap_or(false);
            let description_key = table.item("description_i18n_key").and_then(|item| i18n_key(&item));
            let description = table.item("description").and_then(|item| local_text(&item));
            table.finish();
            Some(DeviceRunSpec { required, description_key, description })
        }
        _ => item.wrong_kind(r#"true, or a table such as { required = true, description = { zh-CN = "…" } }"#),
    }
}
