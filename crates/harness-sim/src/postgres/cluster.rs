//! A private server below a folder.

use std::{
    fs, io,
    net::TcpListener,
    os::unix::fs::{PermissionsExt as _, chown},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use super::{TestServer, tls};

/// The programs of an installed PostgreSQL.
#[derive(Debug, Clone)]
pub struct Programs(PathBuf);

impl Programs {
    /// Finds them by `pg_config`, in `PATH`, or in the folders of Debian; the newest of several.
    pub fn find() -> Option<Self> {
        let asked = Command::new("pg_config").arg("--bindir").output().ok();
        let asked = asked.map(|out| PathBuf::from(String::from_utf8_lossy(&out.stdout).trim()));
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut debian: Vec<(u32, PathBuf)> = fs::read_dir("/usr/lib/postgresql")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let version = entry.file_name().to_str()?.parse().ok()?;
                Some((version, entry.path().join("bin")))
            })
            .collect();
        debian.sort();
        let debian = debian.into_iter().rev().map(|(_, folder)| folder);
        let all = asked.into_iter().chain(std::env::split_paths(&path)).chain(debian);
        all.into_iter().find(|folder| is_whole(folder)).map(Self)
    }

    fn command(&self, name: &str, user: Option<User>) -> Command {
        let program = self.0.join(name);
        let mut command = match user {
            // A server does not run as root.
            Some(User { uid, gid, .. }) => {
                let mut command = Command::new("setpriv");
                command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}"));
                command.arg("--clear-groups").arg(program);
                command
            }
            None => Command::new(program),
        };
        command.stdin(Stdio::null()).current_dir("/");
        command
    }
}

fn is_whole(folder: &Path) -> bool {
    ["initdb", "pg_ctl", "postgres"].iter().all(|name| folder.join(name).is_file())
}

#[derive(Debug, Clone, Copy)]
struct User {
    uid: u32,
    gid: u32,
}

/// Returns the user under which a server runs if this is root.
fn other_user() -> Option<User> {
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|id| id.stdout == b"0\n");
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = |name: &str| {
        let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        let mut number = || fields.next().and_then(|field| field.parse().ok());
        Some(User { uid: number()?, gid: number()? })
    };
    is_root.then(|| user("postgres").or_else(|| user("nobody")).expect("a user for the server"))
}

/// A server that is stopped when this is dropped.
#[derive(Debug)]
pub struct Cluster {
    programs: Programs,
    user: Option<User>,
    data: PathBuf,
    port: u16,
    /// The folder of the Unix socket, whose path is short.
    socket: tempfile::TempDir,
    options: String,
    /// The folder of a server whose files are temporary.
    _folder: Option<tempfile::TempDir>,
}

impl Cluster {
    /// Makes a server below `folder`, which is made anew, and starts it with these options.
    pub fn start_in(folder: &Path, programs: Programs, options: &str) -> io::Result<Self> {
        _ = fs::remove_dir_all(folder);
        fs::create_dir_all(folder)?;
        let cluster = Self::new(&folder.canonicalize()?, programs, options, None)?;
        cluster.initialize()?;
        cluster.start()?;
        Ok(cluster)
    }

    /// Makes a server in a temporary folder, and starts it with these options.
    pub fn temporary(options: &str) -> io::Result<Self> {
        let programs =
            Programs::find().ok_or_else(|| io::Error::other("no PostgreSQL is installed"))?;
        let folder = tempfile::tempdir()?;
        let path = folder.path().to_owned();
        let cluster = Self::new(&path, programs, options, Some(folder))?;
        cluster.initialize()?;
        cluster.start()?;
        Ok(cluster)
    }

    /// Makes a replica of this server in a temporary folder, and starts it.
    pub fn replica(&self) -> io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().to_owned();
        let replica = Self::new(&path, self.programs.clone(), "", Some(folder))?;
        let mut copy = self.programs.command("pg_basebackup", self.user);
        copy.arg("-D")
            .arg(&replica.data)
            .args(["-R", "-X", "stream", "-c", "fast", "-U", "postgres"]);
        copy.args(["-h", "127.0.0.1", "-p", &self.port.to_string()]);
        done(&mut copy)?;
        replica.start()?;
        Ok(replica)
    }

    fn new(
        folder: &Path,
        programs: Programs,
        options: &str,
        temporary: Option<tempfile::TempDir>,
    ) -> io::Result<Self> {
        let (user, socket) = (other_user(), tempfile::tempdir()?);
        for path in [folder, socket.path()] {
            if let Some(User { uid, gid }) = user {
                chown(path, Some(uid), Some(gid))?;
            }
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
        // The port is free now. Nothing else on this machine asks for it in the meantime.
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let (data, options) = (folder.join("data"), options.to_owned());
        Ok(Self { programs, user, data, port, socket, options, _folder: temporary })
    }

    fn initialize(&self) -> io::Result<()> {
        let mut make = self.programs.command("initdb", self.user);
        make.arg("-D").arg(&self.data);
        done(make.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"]))?;
        // Only the role `secured` needs a password.
        let rules = "host all secured 127.0.0.1/32 scram-sha-256\nlocal all all trust\n\
                     host all all 127.0.0.1/32 trust\nhost replication all 127.0.0.1/32 trust\n";
        fs::write(self.data.join("pg_hba.conf"), rules)?;
        if tls::make(&self.data)? {
            for name in tls::FILES {
                let place = self.data.join(name);
                if let Some(User { uid, gid }) = self.user {
                    chown(&place, Some(uid), Some(gid))?;
                }
                fs::set_permissions(&place, fs::Permissions::from_mode(0o600))?;
            }
        }
        Ok(())
    }

    fn start(&self) -> io::Result<()> {
        let socket = self.socket.path().display();
        let tls = if self.data.join(tls::AUTHORITY).exists() { tls::OPTIONS } else { "" };
        let options = format!(
            "-p {} -k {socket} -c listen_addresses=127.0.0.1 -c max_connections=500 {tls} \
             -c wal_level=replica -c max_wal_senders=4 -c log_min_messages=fatal {}",
            self.port, self.options
        );
        let mut start = self.control();
        done(start.args(["-w", "-o", &options, "-l"]).arg(self.data.join("log")).arg("start"))
    }

    fn control(&self) -> Command {
        let mut control = self.programs.command("pg_ctl", self.user);
        control.arg("-D").arg(&self.data);
        control
    }

    /// Stops the server as a power loss would, and starts it again.
    pub fn crash(&self) -> io::Result<()> {
        self.stop()?;
        self.start()
    }

    /// Stops the server as a power loss would.
    pub fn stop(&self) -> io::Result<()> {
        done(self.control().args(["-m", "immediate", "-w", "stop"]))
    }

    /// Starts a replica that was stopped, and lets it take over. What its primary did meanwhile is lost.
    pub fn take_over(&self) -> io::Result<()> {
        self.start()?;
        done(self.control().args(["-w", "promote"]))
    }

    /// Returns the server for tests.
    pub fn server(&self) -> TestServer {
        TestServer::at(&self.url())
    }

    /// Returns the address of its first database, as the owner of everything.
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        _ = self.stop();
    }
}

fn done(command: &mut Command) -> io::Result<()> {
    // The server inherits these, and would keep a pipe open.
    let output = command.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    match output.success() {
        true => Ok(()),
        false => Err(io::Error::other(format!("{command:?}: {output}"))),
    }
}
