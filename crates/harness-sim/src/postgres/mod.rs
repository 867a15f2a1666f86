//! A real PostgreSQL for tests: a private server, and a database for each test.
//!
//! `cargo xtask test` starts one server for all tests and names it in a variable. Tests that stop their
//! server start one of their own.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code fails by panicking")]

mod cluster;
mod proxy;
mod suite;
mod tls;

use std::{
    path::PathBuf,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use harness::store::postgres::{Database, DatabaseAccess};
use harness_core::database::{DatabaseUrl, LedgerName};
use tokio_postgres::SimpleQueryMessage;

pub use cluster::{Cluster, Programs};
pub use proxy::{Cut, Proxy};
pub use suite::{ServerTest, run_tests};

/// The variable with the address of the server that `cargo xtask test` started.
pub const VARIABLE: &str = "HARNESS_TEST_POSTGRES";

/// A server in which tests make their databases.
#[derive(Debug, Clone)]
pub struct TestServer {
    url: DatabaseUrl,
}

impl TestServer {
    /// Returns the server that the variable names; `None` if there is none.
    pub fn named() -> Option<Self> {
        let url = std::env::var(VARIABLE).ok().filter(|url| !url.is_empty())?;
        Some(Self::at(&url))
    }

    /// Returns the server with this address.
    pub fn at(url: &str) -> Self {
        Self { url: DatabaseUrl::parse(url).unwrap() }
    }

    pub fn url(&self) -> &DatabaseUrl {
        &self.url
    }

    /// Returns the authority that signed the certificate of a private server; `None` if it has none.
    pub fn authority(&self) -> Option<PathBuf> {
        let folder = self.sql("SHOW data_directory").into_iter().flatten().flatten().next()?;
        Some(PathBuf::from(folder).join(tls::AUTHORITY)).filter(|path| path.is_file())
    }

    /// Makes an empty database.
    pub fn fresh(&self) -> TestDatabase {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("test_{}_{number}", std::process::id());
        self.sql(&format!("CREATE DATABASE {name}"));
        TestDatabase { server: self.clone(), name }
    }

    /// Runs statements as the owner of everything, outside of any database of a test.
    pub fn sql(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        query(&self.url, sql).unwrap_or_else(|why| panic!("{sql}: {why}"))
    }
}

/// A database of one test. It is removed when this is dropped.
#[derive(Debug)]
pub struct TestDatabase {
    pub server: TestServer,
    pub name: String,
}

impl TestDatabase {
    /// Returns the address, as the owner of everything.
    pub fn url(&self) -> DatabaseUrl {
        self.server.url.clone().with_database(&self.name)
    }

    /// Returns the access to the ledger `shop`.
    pub fn access(&self) -> DatabaseAccess {
        self.access_by(self.url())
    }

    /// Returns the access to the ledger `shop` at another address, such as that of a proxy.
    pub fn access_by(&self, url: DatabaseUrl) -> DatabaseAccess {
        let ledger = LedgerName::parse("shop").unwrap();
        DatabaseAccess::new(url, ledger).with_patience(Duration::from_secs(30))
    }

    /// Creates the ledger.
    pub fn create(&self) -> Database {
        Database::create(self.access()).unwrap()
    }

    /// Opens the ledger, as another host would.
    pub fn open(&self) -> Database {
        Database::open(self.access()).unwrap()
    }

    /// Runs statements as the owner of everything, and returns the rows of all of them.
    pub fn sql(&self, sql: &str) -> Vec<Vec<Option<String>>> {
        self.try_sql(sql).unwrap_or_else(|why| panic!("{sql}: {why}"))
    }

    /// Does the same, and returns the words of the server if it refuses.
    pub fn try_sql(&self, sql: &str) -> Result<Vec<Vec<Option<String>>>, String> {
        query(&self.url(), sql)
    }

    /// Returns the first value of the first row.
    pub fn value(&self, sql: &str) -> String {
        self.sql(sql).first().and_then(|row| row.first().cloned()).flatten().unwrap_or_default()
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // A server that the test has stopped has no database any more.
        _ = query(&self.server.url, &format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name));
    }
}

/// Runs statements over a connection of their own.
pub fn query(url: &DatabaseUrl, sql: &str) -> Result<Vec<Vec<Option<String>>>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut config = tokio_postgres::Config::new();
    config.host(url.host()).port(url.port()).user(url.user().unwrap_or("postgres"));
    config.dbname(url.database().unwrap_or("postgres"));
    config.ssl_mode(tokio_postgres::config::SslMode::Disable);
    if let Some(password) = url.password() {
        config.password(password.reveal());
    }
    let plain = |why: tokio_postgres::Error| match why.as_db_error() {
        Some(said) => said.message().to_owned(),
        None => why.to_string(),
    };
    runtime.block_on(async {
        let (client, connection) = config.connect(tokio_postgres::NoTls).await.map_err(plain)?;
        let driven = tokio::spawn(connection);
        let answers = client.simple_query(sql).await.map_err(plain)?;
        drop(client);
        _ = driven.await;
        let rows = answers.into_iter().filter_map(|answer| match answer {
            SimpleQueryMessage::Row(row) => {
                Some((0..row.len()).map(|n| row.get(n).map(str::to_owned)).collect())
            }
            _ => None,
        });
        Ok(rows.collect())
    })
}
