//! Names of images: at the factory, on a storage, and for the installer.

pub use daedal_talos_config::Arch;

/// File format of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Format {
    /// A qcow2 disk, which Proxmox imports as it is.
    #[default]
    Qcow2,
    /// A raw disk.
    Raw,
    /// A bootable ISO.
    Iso,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Self::Qcow2 => "qcow2",
            Self::Raw => "raw",
            Self::Iso => "iso",
        }
    }
}

/// An image of a schematic.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Image {
    /// Schematic id.
    pub schematic: String,
    /// Talos version, with `v`.
    pub version: String,
    /// Platform, such as `nocloud` or `metal`.
    pub platform: String,
    /// Architecture.
    pub arch: Arch,
    /// Signed for secure boot.
    pub secure_boot: bool,
    /// File format.
    pub format: Format,
}

impl Image {
    /// The `nocloud` qcow2 of a schematic; the version may lack its `v`.
    pub fn nocloud(schematic: impl Into<String>, version: &str, arch: Arch) -> Self {
        Self {
            schematic: schematic.into(),
            version: format!("v{}", version.strip_prefix('v').unwrap_or(version)),
            platform: "nocloud".into(),
            arch,
            secure_boot: false,
            format: Format::Qcow2,
        }
    }

    /// The file's name at the factory, such as `nocloud-amd64.qcow2`.
    pub fn file_name(&self) -> String {
        let secure = if self.secure_boot { "-secureboot" } else { "" };
        format!("{}-{}{secure}.{}", self.platform, self.arch, self.format.extension())
    }

    /// The path at the factory.
    pub fn path(&self) -> String {
        format!("/image/{}/{}/{}", self.schematic, self.version, self.file_name())
    }

    /// The address at a factory such as `https://factory.talos.dev`.
    pub fn url(&self, factory: &str) -> String {
        format!("{}{}", factory.trim_end_matches('/'), self.path())
    }

    /// A name for a storage that many images share: version, the first twelve digits of the schematic, then the rest.
    /// Only characters that Proxmox keeps as they are.
    pub fn storage_name(&self) -> String {
        let digits: String = self.schematic.chars().filter(char::is_ascii_hexdigit).take(12).collect();
        let version: String = self.version.chars().map(safe).collect();
        format!("talos-{version}-{digits}-{}", self.file_name())
    }

    /// The installer that keeps the platform and the schematic across upgrades. `factory` is an address or a host.
    pub fn installer(&self, factory: &str) -> String {
        let host = factory.split_once("://").map_or(factory, |(_, host)| host).trim_end_matches('/');
        let secure = if self.secure_boot { "-secureboot" } else { "" };
        format!("{host}/{}-installer{secure}/{}:{}", self.platform, self.schematic, self.version)
    }
}

fn safe(c: char) -> char {
    if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '_' }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_factorys() {
        let id = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515";
        let image = Image::nocloud(id, "1.12.0", Arch::Amd64);
        assert_eq!(image.file_name(), "nocloud-amd64.qcow2");
        assert_eq!(
            image.url("https://factory.talos.dev/"),
            format!("https://factory.talos.dev/image/{id}/v1.12.0/nocloud-amd64.qcow2")
        );
        assert_eq!(image.storage_name(), "talos-v1.12.0-ce4c980550dd-nocloud-amd64.qcow2");
        assert_eq!(
            image.installer("https://factory.talos.dev"),
            format!("factory.talos.dev/nocloud-installer/{id}:v1.12.0")
        );
        let secure = Image { secure_boot: true, format: Format::Iso, arch: Arch::Arm64, ..image };
        assert_eq!(secure.file_name(), "nocloud-arm64-secureboot.iso");
        assert_eq!(
            secure.installer("factory.lab:8443"),
            format!("factory.lab:8443/nocloud-installer-secureboot/{id}:v1.12.0")
        );
    }
}
