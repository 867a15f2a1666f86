//! The digest of a version of the ledger, and the seal over it.
//!
//! A version is its root object and its tasks in order. Each task has a digest, which is kept
//! beside its text, and so has each block of tasks. The digest of a version therefore costs the
//! changed tasks and one pass over 32 bytes for each block.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The bytes of a SHA-256.
pub(crate) type Digest = [u8; 32];

/// The digest that identifies a version of the ledger.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct State(pub(super) Digest);

impl State {
    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        bytes(text).map(Self)
    }

    pub(crate) const fn bytes(self) -> Digest {
        self.0
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "State({self})")
    }
}

/// The secret of one state root, which seals its versions.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// Builds the key from random bytes.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Parses 64 hexadecimal digits, the form in the key file.
    pub fn parse(text: &str) -> Option<Self> {
        bytes(text.trim()).map(Self)
    }

    /// Returns the digits that [`parse`](Self::parse) reads.
    pub fn to_text(&self) -> String {
        hex(&self.0)
    }

    /// Returns the HMAC-SHA-256 (RFC 2104) of a version. The key is shorter than a block.
    pub(super) fn seal(&self, state: &State) -> String {
        let mut inner = [0x36_u8; 64];
        let mut outer = [0x5c_u8; 64];
        for (n, byte) in self.0.iter().enumerate() {
            inner[n] ^= byte;
            outer[n] ^= byte;
        }
        let inner = Sha256::new().chain_update(inner).chain_update(state.0).finalize();
        hex(&Sha256::new().chain_update(outer).chain_update(inner).finalize())
    }
}

impl fmt::Debug for Key {
    /// Hides the bytes, because the key is a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

/// The result of verifying the seal of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seal {
    /// This version was written with this key.
    Fits,
    /// Another program wrote this version, or changed it.
    Broken,
    /// The file has no seal: an older harness or another program wrote it.
    Missing,
}

pub(super) fn digest(text: &str) -> Digest {
    Sha256::digest(text.as_bytes()).into()
}

/// Returns the digest of a block of tasks from their digests.
pub(super) fn block(rows: impl Iterator<Item = Digest>) -> Digest {
    let mut all = Sha256::new();
    rows.for_each(|row| all.update(row));
    all.finalize().into()
}

pub(super) fn state(head: &str, blocks: impl Iterator<Item = Digest>) -> State {
    let mut all = Sha256::new();
    all.update(digest(head));
    blocks.for_each(|block| all.update(block));
    State(all.finalize().into())
}

pub(super) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |n: u8| char::from(DIGITS[usize::from(n & 15)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]).collect()
}

fn bytes(text: &str) -> Option<[u8; 32]> {
    let text = text.as_bytes();
    if text.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        let digit = |of: u8| char::from(of).to_digit(16).and_then(|n| u8::try_from(n).ok());
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seal_is_hmac_sha_256() {
        // Expected value: openssl dgst -sha256 -mac HMAC -macopt hexkey:0b…0b over 32 zero bytes.
        let key = Key::new([0x0b; 32]);
        let sealed = key.seal(&State([0; 32]));
        assert_eq!(sealed, "abf0195cf7a503e61897b7bb6f36beb7713f7bbf6a6c68ad4b5059da47670135");
    }

    #[test]
    fn digits_are_read_back() {
        let key = Key::new([0xa7; 32]);
        assert_eq!(Key::parse(&key.to_text()).unwrap().to_text(), key.to_text());
        assert_eq!(State::parse("00").is_none(), State::parse(&"g".repeat(64)).is_none());
    }
}
