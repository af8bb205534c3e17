//! What others make of the keys and certificates in rendered manifests: OpenSSL, strictly, and Go.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// A template that calls every function that makes or takes keys. `.Values.authorities` has the certificates and keys of
/// [`authorities`], encoded.
pub const TEMPLATE: &str = r#"
{{- range $kind := list "rsa" "ecdsa" "ed25519" }}
{{ $kind }}: {{ genPrivateKey $kind | b64enc }}
{{- end }}
{{- $ca := genCA "authority" 365 }}
ca: {{ printf "%s%s" $ca.Cert $ca.Key | b64enc }}
{{- $leaf := genSignedCert "leaf.example.org" (list "10.0.0.1" "fd00::1") (list "leaf.example.org" "*.example.org") 30 $ca }}
leaf: {{ printf "%s%s" $leaf.Cert $leaf.Key | b64enc }}
{{- $own := genSelfSignedCert "own" nil (list "own.example.org") 30 }}
own: {{ printf "%s%s" $own.Cert $own.Key | b64enc }}
{{- range $name, $authority := .Values.authorities }}
{{- $ca := buildCustomCert $authority.cert $authority.key }}
ca-{{ $name }}: {{ printf "%s%s" $ca.Cert $ca.Key | b64enc }}
{{- range $kind := list "ecdsa" "ed25519" }}
{{- $leaf := genSignedCertWithKey (printf "%s & %s" $name $kind) nil (list "a.example.org") 30 $ca (genPrivateKey $kind) }}
leaf-{{ $name }}-{{ $kind }}: {{ printf "%s%s" $leaf.Cert $leaf.Key | b64enc }}
{{- end }}
{{- $renewed := genCAWithKey (printf "renewed %s" $name) 365 (b64dec $authority.key) }}
{{- $leaf := genSignedCert "renewed" nil (list "a.example.org") 30 $renewed }}
renewed-{{ $name }}: {{ printf "%s%s" $renewed.Cert $leaf.Cert | b64enc }}
own-{{ $name }}: {{ (genSelfSignedCertWithKey $name nil nil 30 (b64dec $authority.key)).Cert | b64enc }}
{{- end }}
"#;

/// Values for [`TEMPLATE`]: authorities of every kind, made by OpenSSL.
pub fn authorities() -> serde_json::Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/authorities");
    let read = |name: String| STANDARD.encode(std::fs::read(folder.join(name)).unwrap_or_default());
    let kinds = ["rsa", "p256", "p384", "p521", "ed25519"];
    let all = kinds.map(|kind| {
        let files =
            serde_json::json!({"cert": read(format!("{kind}.crt")), "key": read(format!("{kind}.key"))});
        (kind.to_owned(), files)
    });
    serde_json::json!({"authorities": serde_json::Map::from_iter(all)})
}

/// OpenSSL, and the small Go program beside this file.
pub struct Verifiers {
    openssl: PathBuf,
    go: PathBuf,
    folder: tempfile::TempDir,
}

/// What was read and verified.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub keys: usize,
    pub certificates: usize,
    pub chains: usize,
}

impl Verifiers {
    /// Both, or what is missing.
    pub fn find() -> Result<Self, String> {
        let program = |variable: &str, name: &str| {
            let named = std::env::var_os(variable).map(PathBuf::from);
            let on_path = || {
                let path = std::env::var_os("PATH")?;
                std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
            };
            named.or_else(on_path).ok_or_else(|| format!("no {name} on this machine"))
        };
        let (openssl, go) = (program("DAEDAL_OPENSSL", "openssl")?, program("DAEDAL_GO", "go")?);
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let built = folder.path().join("verify");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/verifiers/go");
        let mut command = Command::new(go);
        command.args(["build", "-o"]).arg(&built).arg(".").current_dir(source);
        // It needs nothing but the standard library.
        run(command.env("GOFLAGS", "-mod=mod").env("GOPROXY", "off").env("GOTOOLCHAIN", "local"), "")?;
        Ok(Self { openssl, go: built, folder })
    }

    /// What Go says of each block.
    pub fn described(&self, blocks: &[String]) -> Result<Vec<String>, String> {
        let told = run(&mut Command::new(&self.go), &blocks.concat())?;
        Ok(told.lines().map(str::to_owned).collect())
    }

    /// Has both look at every key and certificate. An error says who does not accept what.
    pub fn check(&self, blocks: &[String]) -> Result<Counts, String> {
        let described = self.described(blocks).map_err(|e| format!("Go: {e}"))?;
        let is = |block: &&String| block.starts_with("-----BEGIN CERTIFICATE-----");
        let (certificates, keys): (Vec<&String>, Vec<&String>) = blocks.iter().partition(is);
        let file = |name: &str, text: &str| {
            let path = self.folder.path().join(name);
            std::fs::write(&path, text).map(|()| path).map_err(|e| e.to_string())
        };
        let openssl = |args: &[&str], last: &[&Path]| {
            run(Command::new(&self.openssl).args(args).args(last), "").map_err(|e| format!("OpenSSL: {e}"))
        };
        for key in &keys {
            openssl(&["pkey", "-noout", "-in"], &[&file("key.pem", key)?])?;
        }
        let of = |yes: bool| {
            let authority = format!("authority {yes}");
            let lines = described.iter().filter(|line| line.starts_with("CERTIFICATE: "));
            let some = certificates.iter().zip(lines).filter(move |(_, line)| line.contains(&authority));
            some.map(|(certificate, _)| certificate.as_str()).collect::<Vec<_>>()
        };
        let (authorities, leaves) = (of(true), of(false));
        for leaf in &leaves {
            // One that signed itself is its own root.
            let roots = file("roots.pem", &[authorities.concat().as_str(), leaf].concat())?;
            let leaf = file("leaf.pem", leaf)?;
            openssl(
                &["verify", "-x509_strict", "-no_check_time", "-no-CApath", "-CAfile"],
                &[&roots, &leaf],
            )?;
        }
        for authority in &authorities {
            let authority = file("authority.pem", authority)?;
            openssl(
                &["verify", "-x509_strict", "-no_check_time", "-no-CApath", "-CAfile"],
                &[&authority, &authority],
            )?;
        }
        Ok(Counts { keys: keys.len(), certificates: certificates.len(), chains: leaves.len() })
    }
}

/// Runs a program to its good end and gives what it printed.
fn run(command: &mut Command, input: &str) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = started.map_err(|e| format!("cannot run {program}: {e}"))?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|scope| {
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input.as_bytes())));
        child.wait_with_output()
    })
    .map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("{}{}", text, String::from_utf8_lossy(&output.stderr)))
    }
}

/// Every block of PEM in manifests: as it is, in a JSON text, or encoded once more as in a Secret.
pub fn blocks(manifests: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut collect = |text: &str| {
        let text: String = text
            .replace("\\n", "\n")
            .lines()
            .map(|line| format!("{}\n", line.trim_matches([' ', '"', '\''])))
            .collect();
        let mut rest = text.as_str();
        while let Some(start) = rest.find("-----BEGIN ") {
            let block = &rest[start..];
            let Some(end) = block.find("-----END ").and_then(|at| Some(at + block[at..].find('\n')?)) else {
                break;
            };
            found.push(format!("{}\n", &block[..end]));
            rest = &block[end..];
        }
    };
    for line in manifests.lines() {
        for word in line.split([' ', '"', '\'']).filter(|word| word.len() > 80) {
            if let Some(text) = STANDARD.decode(word).ok().and_then(|text| String::from_utf8(text).ok()) {
                collect(&text);
            }
        }
    }
    collect(manifests);
    found
}
