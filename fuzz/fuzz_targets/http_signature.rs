#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| nuncio_fuzz::targets::http_signature::run(data));
