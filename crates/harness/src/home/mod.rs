//! The files of a state root: which there are, where they are, and how they are opened.

pub mod folder;
pub(crate) mod outside;
mod root;
mod stamp;

pub use outside::{Outside, git_directory};
pub use root::root_hash;
pub use stamp::{FileStamp, Inode};
