//! Writes the seeds of every fuzz target below a folder, where libFuzzer and `cargo fuzz` look for them.

#![expect(clippy::unwrap_used, reason = "a tool for developers may panic")]

use std::fs;
use std::path::PathBuf;

fn main() {
    let root = PathBuf::from(std::env::args_os().nth(1).expect("usage: seeds FOLDER"));
    for target in nuncio_fuzz::TARGETS {
        let folder = root.join(target.name);
        fs::create_dir_all(&folder).unwrap();
        for (number, seed) in (target.seeds)().into_iter().enumerate() {
            fs::write(folder.join(format!("seed-{number:04}")), seed).unwrap();
        }
    }
}
