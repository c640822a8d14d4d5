//! `run = { human = … }`: a task that a person carries out.

use serde_json::Value;
use toml::de::DeValue;

use crate::names::DeclaredNames;
use crate::reader::LocatedTomlValue;
use crate::templates::{self, TemplateUse};
use nuncio_core::agent::HumanRunSpec;

pub(super) fn read(
    item: &LocatedTomlValue<'_>,
    input: Option<&Value>,
    names: &DeclaredNames<'_>,
) -> Option<HumanRunSpec> {
    match item.value {
        DeValue::Boolean(true) => Some(HumanRunSpec { instructions: None }),
        DeValue::Table(_) => {
            let table = item.table()?;
            let instructions = table.item("instructions").filter(|item| item.text().is_some());
            let instructions =
                instructions.and_then(|item| templates::read(&item, TemplateUse::TaskText(input), names));
            table.finish();
            Some(HumanRunSpec { instructions })
        }
        _ => item.wrong_kind(r#"true, or a table such as { instructions = "Fetch {{ args.parcel }}." }"#),
    }
}
