//! Static files of the device pages, compiled into the program.

use nuncio_http::pages::assets::{Asset, Assets, version};

const DEVICE_ASSETS: &[Asset] = nuncio_http::assets![
    "device.css",
    "waiting.svg",
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

pub(super) static FILES: Assets = Assets::new(DEVICE_ASSETS, || version(DEVICE_ASSETS));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_asset_file_is_listed_and_passes_the_asset_checks() {
        let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/assets"));
        assert_eq!(FILES.faults(folder), Vec::<String>::new());
    }
}
