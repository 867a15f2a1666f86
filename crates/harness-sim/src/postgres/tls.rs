//! A certificate for a private server, and the authority that signed it. Both are made anew for each
//! server by the program `openssl`, so that no key is stored anywhere.

use std::{
    fs, io,
    path::Path,
    process::{Command, Stdio},
};

/// The authority that signed the certificate of the server, for `localhost`.
pub(super) const AUTHORITY: &str = "authority.pem";
/// The files that the server reads.
pub(super) const FILES: [&str; 3] = [AUTHORITY, "server.pem", "server.key"];
pub(super) const OPTIONS: &str = "-c ssl=on -c ssl_cert_file=server.pem -c ssl_key_file=server.key";

const CURVE: &str = "ec_paramgen_curve:prime256v1";

/// Makes the files in this folder. Returns `false`, loudly, if there is no `openssl`.
pub(super) fn make(folder: &Path) -> io::Result<bool> {
    if !openssl(folder, &["version"])? {
        eprintln!("NO TLS: the program openssl is missing, so the server has no certificate");
        return Ok(false);
    }
    fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n")?;
    let key = ["-newkey", "ec", "-pkeyopt", CURVE, "-nodes", "-days", "2"];
    let root = ["-keyout", "authority.key", "-out", AUTHORITY, "-subj", "/CN=tests of harness"];
    let made = openssl(folder, &[&["req", "-x509"], &key[..], &root[..]].concat())?;
    let asked = ["-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost"];
    let made = made && openssl(folder, &[&["req", "-new"], &key[..5], &asked[..]].concat())?;
    let sign = "x509 -req -in server.csr -CA authority.pem -CAkey authority.key -CAcreateserial \
                -out server.pem -days 2 -extfile names";
    let made = made && openssl(folder, &sign.split_whitespace().collect::<Vec<_>>())?;
    // The key of the authority is not needed any more, and a copy of the folder must not contain it.
    for name in ["authority.key", "authority.srl", "server.csr", "names"] {
        _ = fs::remove_file(folder.join(name));
    }
    match made {
        true => Ok(true),
        false => Err(io::Error::other("openssl made no certificate")),
    }
}

/// Runs the program, and returns whether it is there and succeeded.
fn openssl(folder: &Path, arguments: &[&str]) -> io::Result<bool> {
    let mut command = Command::new("openssl");
    command.args(arguments).current_dir(folder);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) => Ok(status.success()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(why) => Err(why),
    }
}
