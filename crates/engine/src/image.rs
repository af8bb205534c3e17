//! Which disk image the nodes of a cluster boot from, computed offline.

use daedal_image_factory::{Arch, Image, Schematic};
use daedal_inventory::Cluster;
use daedal_planner::ImageRef;
use daedal_planner::names::image_file;

/// What the image is made of.
pub(crate) fn schematic(cluster: &Cluster) -> Schematic {
    Schematic {
        extensions: cluster.talos.extensions.clone(),
        kernel_args: cluster.talos.kernel_args.clone(),
        ..Schematic::default()
    }
}

/// The image at the factory.
pub(crate) fn image(cluster: &Cluster) -> Image {
    let arch = match cluster.talos.arch {
        daedal_inventory::Arch::Amd64 => Arch::Amd64,
        daedal_inventory::Arch::Arm64 => Arch::Arm64,
    };
    Image::nocloud(schematic(cluster).id(), &cluster.talos.version.to_string(), arch)
}

/// The image as plans name it: its schematic, its file name on the storage, where it comes from.
pub(crate) fn reference(cluster: &Cluster) -> ImageRef {
    let image = image(cluster);
    ImageRef {
        file: image_file(cluster, &image.schematic),
        url: image.url(&cluster.talos.factory),
        schematic_id: image.schematic,
    }
}

/// The installer an upgrade takes, of the same platform and schematic.
pub(crate) fn installer(cluster: &Cluster) -> String {
    image(cluster).installer(&cluster.talos.factory)
}
