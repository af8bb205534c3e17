//! One encrypted value: `ENC[AES256_GCM,data:…,iv:…,tag:…,type:…]`.

use aes_gcm::aead::array::ArraySize;
use aes_gcm::aead::consts::{U12, U16, U32};
use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::aes::Aes256;
use aes_gcm::{AesGcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rand::{CryptoRng, RngCore};
use zeroize::Zeroizing;

use crate::value::{Kind, Value};

/// Length of the tag, which the cipher writes after the data.
const TAG: usize = 16;

/// The key that encrypts all values of a file.
#[derive(Clone)]
pub(crate) struct DataKey(Zeroizing<[u8; 32]>);

impl DataKey {
    pub(crate) fn random(rng: &mut (impl CryptoRng + RngCore)) -> Self {
        let mut key = Zeroizing::new([0; 32]);
        rng.fill_bytes(key.as_mut_slice());
        Self(key)
    }

    /// The key in these bytes, if they are as long as one.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        Some(Self(Zeroizing::new(bytes.try_into().ok()?)))
    }

    pub(crate) fn expose(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// Encrypts a value for the place it is bound to.
    pub(crate) fn encrypt(
        &self,
        value: &Value,
        bound: &str,
        rng: &mut (impl CryptoRng + RngCore),
    ) -> Option<String> {
        let mut iv = [0; 32];
        rng.fill_bytes(&mut iv);
        let cipher = AesGcm::<Aes256, U32>::new_from_slice(self.expose()).ok()?;
        let payload = Payload { msg: value.plain.expose(), aad: bound.as_bytes() };
        let sealed = cipher.encrypt(&Nonce::from(iv), payload).ok()?;
        let (data, tag) = sealed.split_at(sealed.len().checked_sub(TAG)?);
        let [data, iv, tag] = [data, &iv, tag].map(|bytes| STANDARD.encode(bytes));
        Some(format!("ENC[AES256_GCM,data:{data},iv:{iv},tag:{tag},type:{}]", value.kind.name()))
    }

    /// Decrypts a value at the place it is bound to, or says what is wrong.
    pub(crate) fn decrypt(&self, text: &str, bound: &str) -> Result<Value, &'static str> {
        let sealed = Sealed::parse(text).ok_or("its text is not that of an encrypted value")?;
        let kind = Kind::named(sealed.kind).ok_or("its type is not known")?;
        let opened = match sealed.iv.len() {
            12 => self.open::<U12>(&sealed, bound),
            16 => self.open::<U16>(&sealed, bound),
            32 => self.open::<U32>(&sealed, bound),
            _ => return Err("the length of its IV is not supported"),
        };
        let plain = opened.ok_or("it was changed, or moved here from another place or file")?;
        Ok(Value::new(kind, plain))
    }

    fn open<N: ArraySize>(&self, sealed: &Sealed<'_>, bound: &str) -> Option<Vec<u8>> {
        let cipher = AesGcm::<Aes256, N>::new_from_slice(self.expose()).ok()?;
        let nonce = Nonce::<N>::try_from(sealed.iv.as_slice()).ok()?;
        let payload = Payload { msg: &sealed.data, aad: bound.as_bytes() };
        cipher.decrypt(&nonce, payload).ok()
    }
}

/// The parts of an encrypted value.
struct Sealed<'a> {
    /// Data and tag.
    data: Vec<u8>,
    iv: Vec<u8>,
    kind: &'a str,
}

impl<'a> Sealed<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let inner = text.strip_prefix("ENC[AES256_GCM,data:")?.strip_suffix(']')?;
        let (data, rest) = inner.split_once(",iv:")?;
        let (iv, rest) = rest.split_once(",tag:")?;
        let (tag, kind) = rest.split_once(",type:")?;
        let [mut data, iv, tag] =
            [STANDARD.decode(data).ok()?, STANDARD.decode(iv).ok()?, STANDARD.decode(tag).ok()?];
        if tag.len() != TAG {
            return None;
        }
        data.extend(tag);
        Some(Self { data, iv, kind })
    }
}

/// Whether a text is written as an encrypted comment.
pub(crate) fn is_comment(text: &str) -> bool {
    text.starts_with("ENC[AES256_GCM,") && text.ends_with(",type:comment]")
}

/// Whether a text is written as an encrypted value.
pub(crate) fn is_encrypted(text: &str) -> bool {
    Sealed::parse(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_opens_only_where_it_belongs_and_unchanged() {
        let rng = &mut rand::thread_rng();
        let key = DataKey::random(rng);
        for value in [
            Value::text("s3cret"),
            Value::new(Kind::Int, "42"),
            Value::new(Kind::Str, vec![0xFF, 0]),
            Value::new(Kind::Comment, " a comment"),
        ] {
            let text = key.encrypt(&value, "a:b:", rng).unwrap();
            assert!(
                is_encrypted(&text) && text.ends_with(&format!(",type:{}]", value.kind.name())),
                "{text}"
            );
            assert_eq!(key.decrypt(&text, "a:b:"), Ok(value.clone()));
            assert!(key.decrypt(&text, "a:c:").is_err());
            assert!(DataKey::random(rng).decrypt(&text, "a:b:").is_err());
            assert!(key.decrypt(&text.replace("type:", "type:x"), "a:b:").is_err());
            // Another IV each time.
            assert_ne!(key.encrypt(&value, "a:b:", rng).unwrap(), text);
        }
        for text in ["", "x", "ENC[AES256_GCM,data:,iv:,tag:,type:str]", "ENC[AES256_GCM,data:YQ==]"] {
            assert!(!is_encrypted(text) && key.decrypt(text, ":").is_err(), "{text}");
        }
    }
}
