//! Talos Image Factory: schematics, image names, verified downloads.
