//! Passwords, random bytes and AES.

use aes::cipher::{BlockDecrypt as _, BlockEncrypt as _, KeyInit as _};
use base64::Engine as _;
use hmac::{Hmac, Mac as _};
use sha2::Sha256;

use super::{Entry, Type, bytes, fixed, int, text};
use crate::template::exec::{Exec, FuncResult};
use crate::value::Value;

pub(super) fn functions() -> Vec<Entry> {
    use Type::{Int, Str, Uint32};
    vec![
        fixed("bcrypt", &[Str], |exec, args| {
            let hash = bcrypt(exec, bytes(args, 0));
            Ok(Value::string(hash))
        }),
        fixed("htpasswd", &[Str, Str], |exec, args| {
            let user = text(args, 0);
            if user.contains(':') {
                return Ok(Value::string(format!("invalid username: {user}")));
            }
            let hash = bcrypt(exec, bytes(args, 1));
            Ok(Value::string(format!("{user}:{hash}")))
        }),
        fixed("derivePassword", &[Uint32, Str, Str, Str, Str], derive_password),
        fixed("randBytes", &[Int], |exec, args| {
            let Some(count) = usize::try_from(int(args, 0)).ok().filter(|c| *c <= exec.env.limits.output)
            else {
                return Err("runtime error: makeslice: len out of range".into());
            };
            let drawn = exec.env.random.borrow_mut().bytes(count);
            Ok(Value::string(base64::engine::general_purpose::STANDARD.encode(drawn)))
        }),
        fixed("uuidv4", &[], |exec, _| {
            let mut raw = exec.env.random.borrow_mut().bytes(16);
            raw[6] = raw[6] & 0x0f | 0x40;
            raw[8] = raw[8] & 0x3f | 0x80;
            let digits = hex::encode(raw);
            Ok(Value::string(format!(
                "{}-{}-{}-{}-{}",
                &digits[..8],
                &digits[8..12],
                &digits[12..16],
                &digits[16..20],
                &digits[20..]
            )))
        }),
        fixed("encryptAES", &[Str, Str], encrypt),
        fixed("decryptAES", &[Str, Str], decrypt),
    ]
}

fn bcrypt(exec: &Exec<'_>, password: &[u8]) -> String {
    if password.len() > 72 {
        return "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes".to_owned();
    }
    let mut salt = [0u8; 16];
    salt.copy_from_slice(&exec.env.random.borrow_mut().bytes(16));
    match bcrypt::hash_with_salt(password, 10, salt) {
        Ok(parts) => parts.format_for_version(bcrypt::Version::TwoA),
        Err(error) => format!("failed to encrypt string with bcrypt: {error}"),
    }
}

const SEED: &[u8] = b"com.lyndir.masterpassword";

fn templates(kind: &str) -> Option<&'static [&'static str]> {
    Some(match kind {
        "maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        "long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        "medium" => &["CvcnoCvc", "CvcCvcno"],
        "short" => &["Cvcn"],
        "basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        "pin" => &["nnnn"],
        _ => return None,
    })
}

fn alphabet(class: u8) -> &'static [u8] {
    match class {
        b'V' => b"AEIOU",
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'A' => b"AEIOUBCDFGHJKLMNPQRSTVWXYZ",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => b"0123456789",
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

fn sized(part: &[u8]) -> Vec<u8> {
    let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], part].concat()
}

fn derive_password(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let counter = match args[0] {
        Value::Uint64(u) => u32::try_from(u).unwrap_or(u32::MAX),
        _ => 0,
    };
    let kind = text(args, 1);
    let Some(templates) = templates(&kind) else {
        return Ok(Value::string(format!("cannot find password template {kind}")));
    };
    let salt = [SEED, sized(bytes(args, 3)).as_slice()].concat();
    let key = scrypt(bytes(args, 2), &salt, 32_768, 8, 2);
    let message = [SEED, sized(bytes(args, 4)).as_slice(), &counter.to_be_bytes()].concat();
    let seed = hmac_sha256(&key, &message);
    let template = templates[usize::from(seed[0]) % templates.len()];
    let password: Vec<u8> = template
        .bytes()
        .zip(&seed[1..])
        .map(|(class, byte)| {
            let letters = alphabet(class);
            letters[usize::from(*byte) % letters.len()]
        })
        .collect();
    Ok(Value::string(password))
}

fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    // HMAC takes keys of any length, so this cannot fail.
    match <Hmac<Sha256> as hmac::Mac>::new_from_slice(key) {
        Ok(mut mac) => {
            mac.update(message);
            mac.finalize().into_bytes().into()
        }
        Err(_) => [0; 32],
    }
}

/// PBKDF2 with one round.
fn pbkdf2(password: &[u8], salt: &[u8], length: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(length + 32);
    let mut block = 1u32;
    while out.len() < length {
        out.extend_from_slice(&hmac_sha256(password, &[salt, &block.to_be_bytes()].concat()));
        block += 1;
    }
    out.truncate(length);
    out
}

fn salsa20_8(block: &mut [u32; 16]) {
    let mut x = *block;
    let mut quarter = |a: usize, b: usize, c: usize, d: usize| {
        x[b] ^= x[a].wrapping_add(x[d]).rotate_left(7);
        x[c] ^= x[b].wrapping_add(x[a]).rotate_left(9);
        x[d] ^= x[c].wrapping_add(x[b]).rotate_left(13);
        x[a] ^= x[d].wrapping_add(x[c]).rotate_left(18);
    };
    for _ in 0..4 {
        quarter(0, 4, 8, 12);
        quarter(5, 9, 13, 1);
        quarter(10, 14, 2, 6);
        quarter(15, 3, 7, 11);
        quarter(0, 1, 2, 3);
        quarter(5, 6, 7, 4);
        quarter(10, 11, 8, 9);
        quarter(15, 12, 13, 14);
    }
    for (out, mixed) in block.iter_mut().zip(x) {
        *out = out.wrapping_add(mixed);
    }
}

fn block_mix(input: &[u32], output: &mut [u32], r: usize) {
    let mut x = [0u32; 16];
    x.copy_from_slice(&input[(2 * r - 1) * 16..]);
    for i in 0..2 * r {
        for (word, other) in x.iter_mut().zip(&input[i * 16..]) {
            *word ^= other;
        }
        salsa20_8(&mut x);
        let at = (i / 2 + if i % 2 == 1 { r } else { 0 }) * 16;
        output[at..at + 16].copy_from_slice(&x);
    }
}

/// scrypt with 64 bytes of output.
fn scrypt(password: &[u8], salt: &[u8], n: usize, r: usize, p: usize) -> Vec<u8> {
    let words = 32 * r;
    let mut blocks = pbkdf2(password, salt, p * words * 4);
    for lane in blocks.chunks_mut(words * 4) {
        let mut x: Vec<u32> = lane.chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect();
        let mut scratch = vec![0u32; words];
        let mut memory = Vec::with_capacity(n * words);
        for _ in 0..n {
            memory.extend_from_slice(&x);
            block_mix(&x, &mut scratch, r);
            std::mem::swap(&mut x, &mut scratch);
        }
        for _ in 0..n {
            let j = x[(2 * r - 1) * 16] as usize % n;
            for (word, other) in x.iter_mut().zip(&memory[j * words..]) {
                *word ^= other;
            }
            block_mix(&x, &mut scratch, r);
            std::mem::swap(&mut x, &mut scratch);
        }
        for (bytes, word) in lane.chunks_mut(4).zip(&x) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }
    pbkdf2(password, &blocks, 64)
}

fn cipher(password: &[u8]) -> aes::Aes256 {
    let mut key = [0u8; 32];
    let length = password.len().min(32);
    key[..length].copy_from_slice(&password[..length]);
    aes::Aes256::new(&key.into())
}

fn encrypt(exec: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    let plain = bytes(args, 1);
    if plain.is_empty() {
        return Ok(Value::string(""));
    }
    let cipher = cipher(bytes(args, 0));
    let padding = 16 - plain.len() % 16;
    let mut content = plain.to_vec();
    content.extend(std::iter::repeat_n(u8::try_from(padding).unwrap_or(0), padding));
    let mut out = exec.env.random.borrow_mut().bytes(16);
    let mut previous: [u8; 16] = [0; 16];
    previous.copy_from_slice(&out);
    for chunk in content.chunks(16) {
        let mut block = [0u8; 16];
        for (slot, (a, b)) in block.iter_mut().zip(chunk.iter().zip(previous)) {
            *slot = a ^ b;
        }
        let mut encrypted = block.into();
        cipher.encrypt_block(&mut encrypted);
        previous.copy_from_slice(&encrypted);
        out.extend_from_slice(&previous);
    }
    Ok(Value::string(base64::engine::general_purpose::STANDARD.encode(out)))
}

fn decrypt(_: &mut Exec<'_>, args: &mut [Value]) -> FuncResult {
    if bytes(args, 1).is_empty() {
        return Ok(Value::string(""));
    }
    let data = super::encoding::base64_decode(bytes(args, 1))?;
    if data.len() < 32 || !data.len().is_multiple_of(16) {
        return Err("crypto/cipher: input not full blocks".into());
    }
    let cipher = cipher(bytes(args, 0));
    let mut out = Vec::with_capacity(data.len());
    for (previous, chunk) in data.chunks(16).zip(data.chunks(16).skip(1)) {
        let mut block = [0u8; 16];
        block.copy_from_slice(chunk);
        let mut decrypted = block.into();
        cipher.decrypt_block(&mut decrypted);
        out.extend(decrypted.iter().zip(previous).map(|(a, b)| a ^ b));
    }
    let padding = usize::from(out.last().copied().unwrap_or(0));
    match out.len().checked_sub(padding) {
        Some(length) => out.truncate(length),
        None => return Err("runtime error: slice bounds out of range".into()),
    }
    Ok(Value::string(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scrypt_matches_the_published_vector() {
        // RFC 7914, section 12.
        let key = hex::encode(scrypt(b"", b"", 16, 1, 1));
        assert!(key.starts_with("77d6576238657b203b19ca42c18a0497f16b4844e3074ae8dfdffa3fede21442"), "{key}");
    }
}
