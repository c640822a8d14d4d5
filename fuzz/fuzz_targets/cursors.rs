#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nuncio_fuzz::targets::cursors::run(data));
