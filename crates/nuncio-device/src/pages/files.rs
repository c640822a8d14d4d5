//! The static files of these pages, compiled in.

use std::sync::LazyLock;

use nuncio_pages::assets::{Asset, Assets, version};

const OWN: &[Asset] = nuncio_pages::assets![
    "device.css",
    "device.js",
    "words.js",
    "calls.js",
    "consent.js",
    "happened.css",
    "happened.js",
    "devices.css",
    "devices.js",
    "welcome.js",
    "talk.css",
    "talk.js",
];

pub(super) static FILES: Assets = Assets::new(OWN, || version(OWN));

/// The path of the folder they are in.
pub(super) fn folder() -> &'static str {
    static FOLDER: LazyLock<String> = LazyLock::new(|| format!("/assets/{}", FILES.version()));
    &FOLDER
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_in_the_folder_is_served_and_every_script_is_tame() {
        let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/assets"));
        assert_eq!(FILES.faults(folder), Vec::<String>::new());
    }
}
