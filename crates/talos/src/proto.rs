//! The wire types and the client and server stubs of the node API, one module per protobuf package.
//!
//! Package, service, method and field numbers are those of Talos; what no one here uses is left out.

#![allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]

/// Package `google.rpc`.
pub mod google {
    /// Package `google.rpc`.
    pub mod rpc {
        tonic::include_proto!("google.rpc");
    }
}

/// Package `common`.
pub mod common {
    tonic::include_proto!("common");
}

/// Package `machine`.
pub mod machine {
    tonic::include_proto!("machine");
}

/// Package `cluster`.
pub mod cluster {
    tonic::include_proto!("cluster");
}

/// Package `storage`.
pub mod storage {
    tonic::include_proto!("storage");
}

/// Package `time`.
pub mod time {
    tonic::include_proto!("time");
}

/// Package `securityapi`.
pub mod securityapi {
    tonic::include_proto!("securityapi");
}

/// Package `cosi.resource`.
pub mod cosi {
    tonic::include_proto!("cosi.resource");
}
