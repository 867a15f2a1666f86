//! The files of a state root: their names, their places, and the ways to open them.

pub mod folder;
pub(crate) mod outside;
mod root;
mod stamp;

pub use outside::{Outside, git_directory, trust_folder, user_config};
pub use root::{Home, file_name, root_hash, socket_folder};
pub use stamp::{FileStamp, Inode};
