//! The client against a factory that answers exactly as a test wants, over in-memory streams.
#![allow(clippy::unwrap_used, reason = "a test")]

use std::{
    io,
    sync::{Arc, Mutex},
};

use daedal_dial::{BoxStream, Dial, Dialing, Fingerprint, Target, Trust, provider};
use daedal_image_factory::{Error, Factory};
use daedal_talos_image::{Arch, Format, Image, Schematic};
use rustls_pki_types::PrivateKeyDer;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

type Handler = dyn Fn(&str) -> Vec<u8> + Send + Sync;

/// Plain HTTP on port 80, TLS on any other; every request head and body is kept, `host:port` first.
#[derive(Clone)]
struct Server {
    handler: Arc<Handler>,
    acceptor: TlsAcceptor,
    pin: Fingerprint,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Server {
    fn new(handler: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let pair = rcgen::generate_simple_self_signed(vec!["factory".to_owned()]).unwrap();
        let der = pair.cert.der().clone();
        let key = PrivateKeyDer::try_from(pair.signing_key.serialize_der()).unwrap();
        let config = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![der.clone()], key)
            .unwrap();
        let (acceptor, pin) = (TlsAcceptor::from(Arc::new(config)), Fingerprint::of(&der));
        Self { handler: Arc::new(handler), acceptor, pin, seen: Arc::default() }
    }

    fn factory(&self, address: &str) -> Factory {
        Factory::new(address, Arc::new(self.clone()), &Trust::Fingerprint(self.pin)).unwrap()
    }

    async fn serve(self, mut stream: impl AsyncRead + AsyncWrite + Unpin, target: String) -> io::Result<()> {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            request.push(stream.read_u8().await?);
        }
        let head = String::from_utf8_lossy(&request).to_ascii_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await?;
        request.extend(body);
        let request = format!("{target} {}", String::from_utf8_lossy(&request));
        let reply = (self.handler)(&request);
        self.seen.lock().unwrap().push(request);
        stream.write_all(&reply).await?;
        stream.shutdown().await
    }
}

impl Dial for Server {
    fn dial<'a>(&'a self, target: &'a Target) -> Dialing<'a> {
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(1 << 20);
            let (server, name, plain) = (self.clone(), target.to_string(), target.port == 80);
            tokio::spawn(async move {
                if plain {
                    server.serve(far, name).await
                } else {
                    let stream = server.acceptor.clone().accept(far).await?;
                    server.serve(stream, name).await
                }
            });
            Ok(Box::new(near) as BoxStream)
        })
    }
}

fn reply(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn image() -> Image {
    Image::nocloud("ab".repeat(32), "v1.12.0", Arch::Amd64)
}

fn qcow2() -> Vec<u8> {
    let mut bytes = b"QFI\xfb\0\0\0\x03".to_vec();
    bytes.resize(300_000, 7);
    bytes
}

#[tokio::test(start_paused = true)]
async fn a_schematic_is_registered_and_its_id_compared() {
    let schematic = Schematic::with_extensions(["qemu-guest-agent"]);
    let id = schematic.id();
    let body = format!(r#"{{"id":"{id}","schematic":"x"}}"#);
    let server = Server::new(move |_| reply("201 Created", "", body.as_bytes()));
    assert_eq!(server.factory("https://factory").register(&schematic).await.unwrap(), id);
    let seen = server.seen.lock().unwrap().clone();
    assert!(seen[0].starts_with("factory:443 POST /schematics HTTP/1.1\r\n"), "{}", seen[0]);
    assert!(seen[0].ends_with(&schematic.canonical_yaml()), "{}", seen[0]);

    let server = Server::new(|_| reply("201 Created", "", br#"{"id":"0000"}"#));
    let error = server.factory("https://factory").register(&schematic).await.unwrap_err();
    assert!(matches!(error, Error::OtherId { theirs, .. } if theirs == "0000"));
}

#[tokio::test(start_paused = true)]
async fn lists_are_read_below_a_path_and_on_a_port() {
    let server = Server::new(|request| {
        if request.contains("/versions") {
            reply("200 OK", "", br#"["v1.12.0","v1.13.0"]"#)
        } else {
            reply("200 OK", "", br#"[{"name":"siderolabs/tailscale","ref":"ghcr.io/x","digest":"sha256:1"}]"#)
        }
    });
    let factory = server.factory("https://factory:8443/mirror/");
    assert_eq!(factory.versions().await.unwrap(), ["v1.12.0", "v1.13.0"]);
    assert_eq!(factory.extensions("1.12.0").await.unwrap()[0].name, "siderolabs/tailscale");
    let seen = server.seen.lock().unwrap().clone();
    assert!(seen[0].starts_with("factory:8443 GET /mirror/versions "), "{}", seen[0]);
    assert!(seen[0].contains("host: factory:8443\r\n"), "{}", seen[0]);
    assert!(seen[1].contains("/mirror/version/v1.12.0/extensions/official "), "{}", seen[1]);
}

#[tokio::test(start_paused = true)]
async fn an_image_is_measured_through_redirects() {
    let server = Server::new(|request| {
        if request.starts_with("factory:443") {
            reply("302 Found", "Location: https://cdn/blob?sig=1\r\n", b"")
        } else {
            reply("200 OK", "", &qcow2())
        }
    });
    let factory = server.factory("https://factory");
    let mut heard = Vec::new();
    let print = factory.fingerprint(&image(), |so_far, of| heard.push((so_far, of))).await.unwrap();
    assert_eq!((print.size, print.sha256), (300_000, hex::encode(Sha256::digest(qcow2()))));
    assert_eq!(heard.last(), Some(&(300_000, Some(300_000))));
    let seen = server.seen.lock().unwrap().clone();
    let path = format!("factory:443 GET /image/{}/v1.12.0/nocloud-amd64.qcow2 ", "ab".repeat(32));
    assert!(seen[0].starts_with(&path) && seen[1].starts_with("cdn:443 GET /blob?sig=1 "), "{seen:?}");
    assert_eq!(factory.url(&image()), format!("https://factory{}", image().path()));
}

#[tokio::test(start_paused = true)]
async fn the_size_is_told_without_reading() {
    let server = Server::new(|_| b"HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n".to_vec());
    assert_eq!(server.factory("http://factory").head(&image()).await.unwrap(), Some(1234));
    assert!(server.seen.lock().unwrap()[0].starts_with("factory:80 HEAD "));
}

/// Mission: E14
#[tokio::test(start_paused = true)]
async fn a_bad_file_never_yields_a_fingerprint() {
    // Nine bytes, as a web page's error might be stored.
    let server = Server::new(|_| reply("200 OK", "", b"not found"));
    let error = server.factory("https://factory").fingerprint(&image(), |_, _| ()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "nocloud-amd64.qcow2 is not a disk image: it has 9 bytes and starts with 6e6f7420666f756e"
    );
    let server = Server::new(|_| reply("200 OK", "", b"QFI\xfb\0\0\0\x03"));
    let result = server.factory("https://factory").fingerprint(&image(), |_, _| ()).await;
    assert!(matches!(result, Err(Error::NotAnImage { size: 8, .. })));
    // A raw disk is whole sectors, and the first of them has a partition table.
    let raw = Image { format: Format::Raw, ..image() };
    let disk = |size: usize, sign: [u8; 2]| {
        let mut disk = vec![0; size];
        disk[510..512].copy_from_slice(&sign);
        Server::new(move |_| reply("200 OK", "", &disk))
    };
    for (server, said) in [
        (disk(1024, [0, 0]), "it has 1024 bytes and its first sector ends with 0000"),
        (disk(1023, [0x55, 0xaa]), "it has 1023 bytes and its first sector ends with 55aa"),
    ] {
        let error = server.factory("https://factory").fingerprint(&raw, |_, _| ()).await.unwrap_err();
        assert_eq!(error.to_string(), format!("nocloud-amd64.raw is not a disk image: {said}"));
    }
    let measured =
        disk(1024, [0x55, 0xaa]).factory("https://factory").fingerprint(&raw, |_, _| ()).await.unwrap();
    assert_eq!((measured.size, measured.disk_size), (1024, Some(1024)), "the file is the disk");
    // Cut short, on every try.
    let server = Server::new(|_| {
        let whole = reply("200 OK", "", &qcow2());
        whole[..whole.len() - 1].to_vec()
    });
    let error = server.factory("https://factory").fingerprint(&image(), |_, _| ()).await.unwrap_err();
    assert!(matches!(error, Error::BrokeOff { .. }), "{error:?}");
    assert_eq!(server.seen.lock().unwrap().len(), 4);
    // An ISO has no such magic.
    let server = Server::new(|_| reply("200 OK", "", b"iso"));
    let iso = Image { format: Format::Iso, ..image() };
    assert_eq!(server.factory("https://factory").fingerprint(&iso, |_, _| ()).await.unwrap().size, 3);
}

#[tokio::test(start_paused = true)]
async fn what_may_pass_is_tried_again_and_what_may_not_is_told() {
    let tries = Mutex::new(0);
    let server = Server::new(move |_| {
        let mut tries = tries.lock().unwrap();
        *tries += 1;
        match *tries {
            1 => Vec::new(),
            2 => reply("503 Service Unavailable", "", b""),
            _ => reply("200 OK", "", b"[]"),
        }
    });
    assert!(server.factory("https://factory").versions().await.unwrap().is_empty());

    let server = Server::new(|_| reply("400 Bad Request", "", b"unknown extension\n"));
    let error = server.factory("https://factory").register(&Schematic::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "could not register the schematic at the Image Factory: factory answered 400 (unknown extension)"
    );
    assert_eq!(server.seen.lock().unwrap().len(), 1);

    let server = Server::new(|_| reply("302 Found", "Location: http://factory/x\r\n", b""));
    let error = server.factory("https://factory").versions().await.unwrap_err();
    assert!(error.to_string().contains("redirect from https to 'http'"), "{error}");
    let server = Server::new(|_| reply("302 Found", "Location: /again\r\n", b""));
    let error = server.factory("https://factory").versions().await.unwrap_err();
    assert!(error.to_string().contains("too many redirects"), "{error}");
    assert!(Factory::new("factory.talos.dev", Arc::new(server), &Trust::Insecure).is_err());
}

#[tokio::test(start_paused = true)]
async fn a_stranger_is_not_asked_twice() {
    let server = Server::new(|_| reply("200 OK", "", b"[]"));
    let trust = Trust::Fingerprint([7; 32].into());
    let factory = Factory::new("https://factory", Arc::new(server.clone()), &trust).unwrap();
    let error = factory.versions().await.unwrap_err();
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    assert!(server.seen.lock().unwrap().is_empty());
}

/// A stream without an announced size ends at the limit, and one that is announced as too large is not read at all.
#[tokio::test(start_paused = true)]
async fn a_stream_ends_at_the_limit() {
    let image = Image { format: Format::Iso, ..image() };
    let endless = |_: &str| {
        let mut reply = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".to_vec();
        for _ in 0..64 {
            reply.extend(format!("10000\r\n{}\r\n", "a".repeat(0x10000)).into_bytes());
        }
        reply.extend(b"0\r\n\r\n");
        reply
    };
    let mut most = 0;
    let factory = Server::new(endless).factory("https://factory").largest_image(1 << 20);
    let error = factory.fingerprint(&image, |size, _| most = most.max(size)).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { limit: 1_048_576, .. }), "{error:?}");
    assert!(most <= 1 << 20, "{most} bytes were read");

    let huge = |_: &str| b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\na".to_vec();
    let factory = Server::new(huge).factory("https://factory");
    let error = factory.fingerprint(&image, |_, _| {}).await.unwrap_err();
    assert!(matches!(error, Error::TooLarge { .. }), "{error:?}");
}
