/// Implements `Debug` with the type's name alone, for types whose content is secret or not informative.
#[macro_export]
macro_rules! opaque_debug {
    ($name:ty) => {
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }
    };
}
