//! Any bytes as a chart archive: once as they are, once gzipped.
#![no_main]

use std::io::Write as _;

use daedal_helm::Chart;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let _ = Chart::from_archive(data);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    if gzip.write_all(data).is_ok() {
        if let Ok(packed) = gzip.finish() {
            let _ = Chart::from_archive(&packed);
        }
    }
});
