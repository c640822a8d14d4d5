/// Implements the conversions for `#[serde(into = "String", try_from = "String")]`: `Display` writes the text, `$parse`
/// reads it.
macro_rules! string_form {
    ($name:ty, $parse:expr) => {
        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.to_string()
            }
        }

        impl TryFrom<String> for $name {
            type Error = String;

            fn try_from(text: String) -> Result<Self, String> {
                let parse: fn(&str) -> Result<Self, String> = $parse;
                parse(&text)
            }
        }
    };
}

pub(crate) use string_form;
