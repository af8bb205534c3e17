//! Compiles the protocol files without an installed protoc.

use std::error::Error;

const FILES: [&str; 8] = [
    "common.proto",
    "cosi.proto",
    "cluster.proto",
    "machine.proto",
    "rpc.proto",
    "security.proto",
    "storage.proto",
    "time.proto",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=proto");
    let descriptors = protox::compile(FILES, ["proto"])?;
    tonic_prost_build::configure().build_client(true).build_server(true).compile_fds(descriptors)?;
    Ok(())
}
