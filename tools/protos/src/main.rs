//! Generates Rust from the protocol files of a folder into another, without an installed protoc.
//!
//! `protos PROTO_FOLDER OUT_FOLDER`; run by `cargo xtask protos`.

use std::error::Error;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1).map(PathBuf::from);
    let (Some(from), Some(to)) = (args.next(), args.next()) else {
        return Err("usage: protos PROTO_FOLDER OUT_FOLDER".into());
    };
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&from)? {
        let path = entry?.path();
        if path.extension().is_some_and(|e| e == "proto") {
            files.push(path);
        }
    }
    files.sort();
    let descriptors = protox::compile(files, [from])?;
    tonic_prost_build::configure().build_client(true).build_server(true).out_dir(to).compile_fds(descriptors)?;
    Ok(())
}
