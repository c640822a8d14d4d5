//! Reads JSON from a stranger, and says what is wrong with it as a report does.

use nuncio_core::json::{self, Unreadable};
use nuncio_core::schema::MAX_DEPTH;
use serde_json::Value;

use super::report::Fault;

/// Reads a document.
pub(super) fn read(document: &[u8], max_bytes: usize) -> Result<Value, Vec<Fault>> {
    json::read(document, max_bytes).map_err(|unreadable| faults(&unreadable))
}

fn faults(unreadable: &Unreadable) -> Vec<Fault> {
    let message = unreadable.to_string();
    match unreadable {
        Unreadable::TooLarge { most, found } => vec![Fault::new("", message, *most, *found)],
        Unreadable::TooDeep => vec![too_deep()],
        Unreadable::NotJson(_) => vec![Fault::new("", message, "JSON", Value::Null)],
        Unreadable::Repeated(paths) => {
            paths.iter().map(|path| Fault::new(path, "must not be repeated", 1, "more than one")).collect()
        }
    }
}

pub(super) fn too_deep() -> Fault {
    Fault::new("", Unreadable::TooDeep.to_string(), MAX_DEPTH, format!("more than {MAX_DEPTH}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_of_reading_is_told() {
        let told = |document: &str| -> Vec<_> {
            let faults = read(document.as_bytes(), 1000).unwrap_err();
            faults.into_iter().map(|fault| (fault.path, fault.message)).collect()
        };
        let paths: Vec<_> =
            told(r#"{"a":1,"a":2,"b":[{"x/y":1,"x/y":2}]}"#).into_iter().map(|(path, _)| path).collect();
        assert_eq!(paths, ["/a", "/b/0/x~1y"]);
        assert!(told(&"x".repeat(1001))[0].1.contains("1000 bytes"));
        assert!(told(&"[".repeat(200))[0].1.contains("deeper than 64"));
        assert!(told("nul")[0].1.starts_with("must be JSON: "));
    }
}
