//! Filters, tests and functions of templates.

use minijinja::{Environment, context};

/// Filters that messages and documents list. [`is_filter`] decides.
pub const FILTERS: [&str; 48] = [
    "abs",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "pprint",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "zip",
];

/// Tests that messages list. [`is_test`] decides.
pub const TESTS: [&str; 30] = [
    "boolean",
    "defined",
    "divisibleby",
    "endingwith",
    "eq",
    "equalto",
    "even",
    "false",
    "float",
    "ge",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "safe",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
    "upper",
];

/// Functions of templates.
pub const FUNCTIONS: [&str; 4] = ["debug", "dict", "namespace", "range"];

#[must_use]
pub fn is_filter(name: &str) -> bool {
    answers_yes("name is filter", name)
}

#[must_use]
pub fn is_test(name: &str) -> bool {
    answers_yes("name is test", name)
}

#[must_use]
pub fn is_function(name: &str) -> bool {
    Environment::new().globals().any(|(known, _)| known == name)
}

/// The value of an expression about a name. The library has no other way to ask which filters and tests it has.
fn answers_yes(expression: &str, name: &str) -> bool {
    let environment = Environment::new();
    let compiled = environment.compile_expression(expression);
    compiled.and_then(|compiled| compiled.eval(context! { name })).is_ok_and(|value| value.is_true())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_listed_name_exists_in_the_template_language() {
        assert_eq!(FILTERS.iter().find(|name| !is_filter(name)), None);
        assert_eq!(TESTS.iter().find(|name| !is_test(name)), None);
        assert_eq!(FUNCTIONS.iter().find(|name| !is_function(name)), None);
        assert!(!is_filter("uper") && !is_test("odder") && !is_function("now"));
    }
}
