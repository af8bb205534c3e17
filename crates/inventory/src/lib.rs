//! YAML documents to a validated, fully resolved cluster.
