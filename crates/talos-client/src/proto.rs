//! The wire types and the client and server stubs of the node API, one module per protobuf package.
//!
//! Package, service, method and field numbers are those of Talos; what no one here uses is left out.
//! The files in `generated/` are made from `proto/` by `cargo xtask protos`.

#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]

/// Package `google.rpc`.
pub mod google {
    /// Package `google.rpc`.
    pub mod rpc {
        include!("generated/google.rpc.rs");
    }
}

/// Package `common`.
pub mod common {
    include!("generated/common.rs");
}

/// Package `machine`.
pub mod machine {
    include!("generated/machine.rs");
}

/// Package `cluster`.
pub mod cluster {
    include!("generated/cluster.rs");
}

/// Package `storage`.
pub mod storage {
    include!("generated/storage.rs");
}

/// Package `time`.
pub mod time {
    include!("generated/time.rs");
}

/// Package `securityapi`.
pub mod securityapi {
    include!("generated/securityapi.rs");
}

/// Package `cosi.resource`.
pub mod cosi {
    include!("generated/cosi.resource.rs");
}
