//! Random values that must not be guessed, shown or compared byte by byte.

use std::fmt;

use subtle::ConstantTimeEq as _;

use crate::failure::{Failure, Result};

/// `N` random bytes, which are written as hexadecimal digits.
#[derive(Clone, Copy)]
pub(super) struct Secret<const N: usize>([u8; N]);

impl<const N: usize> Secret<N> {
    pub(super) fn random() -> Result<Self> {
        let mut bytes = [0; N];
        getrandom::fill(&mut bytes)
            .map_err(|why| Failure::error(format!("the system has no random numbers: {why}")))?;
        Ok(Self(bytes))
    }

    /// Returns the text of it.
    pub(super) fn reveal(&self) -> String {
        self.0.iter().fold(String::with_capacity(2 * N), |text, byte| format!("{text}{byte:02x}"))
    }

    /// Returns whether `text` is this secret. The time that it takes depends only on the length of
    /// `text`.
    pub(super) fn is(&self, text: &str) -> bool {
        let expected = self.reveal();
        expected.as_bytes().ct_eq(text.as_bytes()).into()
    }
}

impl<const N: usize> fmt::Debug for Secret<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_equals_its_text_only() {
        let secret = Secret::<32>::random().unwrap();
        let text = secret.reveal();
        assert_eq!(text.len(), 64);
        assert!(secret.is(&text));
        assert!(!secret.is(&text[1..]) && !secret.is("") && !secret.is(&text.to_uppercase()[..63]));
        assert!(!secret.is(&Secret::<32>::random().unwrap().reveal()));
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
