//! Checks parameters and nested JSON schemas.

use std::collections::HashSet;

use jsonschema::{ValidationError, draft4, draft6, draft7, draft201909, draft202012};
use nuncio_core::schema::Schema;
use serde_json::Value;

use super::{DocumentLint, MAX_FAULTS};
use crate::validate::actual_value::{SCHEMA_TYPES, is_of_type};

impl DocumentLint<'_> {
    /// Checks every parameter of a list.
    pub(super) fn parameters(&mut self, path: &str) {
        let mut names = HashSet::new();
        for (index, parameter) in self.list(path).iter().enumerate() {
            if self.errors.len() > MAX_FAULTS {
                return;
            }
            let here = format!("{path}/{index}");
            if let Some(name) = parameter.get("name").and_then(Value::as_str)
                && !names.insert(name)
            {
                self.warning(&format!("{here}/name"), "is already the name of an earlier parameter", "a unique name");
            }
            let kind = parameter.get("type").and_then(Value::as_str);
            if kind.is_some_and(|kind| !SCHEMA_TYPES.contains(&kind)) {
                self.warning(&format!("{here}/type"), "is not a type of JSON Schema", SCHEMA_TYPES.to_vec());
            }
            let schema = self.schema(&format!("{here}/schema"));
            let fits_type = |value| kind.is_none_or(|kind| is_of_type(value, kind));
            let fits_schema = |value| schema.as_ref().is_none_or(|schema| schema.check(value).is_ok());
            let default = parameter.get("default");
            if default.is_some_and(|value| !fits_type(value) || !fits_schema(value)) {
                let expected = kind.unwrap_or("a value that fits its schema");
                self.warning(&format!("{here}/default"), "does not fit the parameter's own type and schema", expected);
            }
        }
    }

    /// Checks a nested JSON Schema: an error if it is invalid, a warning if this implementation cannot compile it.
    pub(super) fn schema(&mut self, path: &str) -> Option<Schema> {
        let source = self.at(path).filter(|source| source.is_object())?;
        if let Err(error) = meta(source) {
            let inside = error.instance_path().to_string();
            let index = if inside.is_empty() { String::new() } else { format!("at {inside}, ") };
            self.error(path, format!("must be a JSON Schema: {index}{}", error.masked()), "JSON Schema");
            return None;
        }
        match Schema::compile(source.clone()) {
            Ok(schema) => Some(schema),
            Err(why) => {
                self.warning(
                    path,
                    format!("cannot be used here: {why}"),
                    "a JSON Schema 2020-12 without external references",
                );
                None
            }
        }
    }
}

/// Validates a schema against the meta-schema of the draft it names, 2020-12 by default. Unknown drafts pass.
fn meta(source: &Value) -> Result<(), ValidationError<'_>> {
    match source.get("$schema").and_then(Value::as_str).map(|draft| draft.trim_end_matches('#')) {
        None | Some("https://json-schema.org/draft/2020-12/schema") => draft202012::meta::validate(source),
        Some("https://json-schema.org/draft/2019-09/schema") => draft201909::meta::validate(source),
        Some("http://json-schema.org/draft-07/schema") => draft7::meta::validate(source),
        Some("http://json-schema.org/draft-06/schema") => draft6::meta::validate(source),
        Some("http://json-schema.org/draft-04/schema") => draft4::meta::validate(source),
        Some(_) => Ok(()),
    }
}
