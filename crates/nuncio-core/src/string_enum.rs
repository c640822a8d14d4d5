/// Defines an enum whose values have fixed spellings, which serde uses too.
///
/// `ALL` lists the values in the order written; `as_str` and `Display` write a value's text, and `parse` reads it.
#[macro_export]
macro_rules! string_enum {
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$value_meta:meta])* $value:ident = $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $(
                $(#[$value_meta])*
                #[serde(rename = $text)]
                $value,
            )*
        }

        impl $name {
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$value),*];

            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)*
                }
            }

            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.as_str() == text)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}
