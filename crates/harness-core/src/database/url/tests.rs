#![allow(clippy::unwrap_used, reason = "tests")]

use super::*;

#[test]
fn an_address_is_read_as_libpq_reads_it() {
    let url = DatabaseUrl::parse(
        "postgresql://w%40rk:pa%3Ass@db.example:6543/shop?sslmode=verify-ca&sslrootcert=/a/b.pem",
    );
    let url = url.unwrap();
    assert_eq!((url.host(), url.port(), url.user()), ("db.example", 6543, Some("w@rk")));
    assert_eq!(url.database(), Some("shop"));
    assert_eq!(url.password().unwrap().reveal(), "pa:ss");
    assert_eq!(url.sslmode(), SslMode::VerifyCa);
    let shown = "postgres://w%40rk@db.example:6543/shop?sslmode=verify-ca&sslrootcert=%2Fa%2Fb.pem";
    assert_eq!(url.to_string(), shown);
    let again = DatabaseUrl::parse(shown).unwrap();
    assert_eq!(again, DatabaseUrl { password: None, ..url });
}

#[test]
fn tls_is_strict_except_on_this_machine() {
    for (text, mode, weak) in [
        ("postgres://db.example/x", SslMode::VerifyFull, None),
        ("postgres://db.example/x?sslmode=require", SslMode::Require, Some(SslMode::Require)),
        ("postgres://10.0.0.1/x?sslmode=disable", SslMode::Disable, Some(SslMode::Disable)),
        ("postgres://localhost/x", SslMode::Prefer, None),
        ("postgres://127.0.0.9/x", SslMode::Prefer, None),
        ("postgres://[::1]:99/x?sslmode=disable", SslMode::Disable, None),
        ("postgres:///x?host=/run/postgresql", SslMode::Disable, None),
        ("postgres://%2Frun%2Fpostgresql/x", SslMode::Disable, None),
    ] {
        let url = DatabaseUrl::parse(text).unwrap();
        assert_eq!((url.sslmode(), url.weak_sslmode()), (mode, weak), "{text}");
    }
}

#[test]
fn a_password_is_shown_nowhere_and_refused_in_a_file() {
    let text = "postgres://u:hunter2@h/d?sslmode=disable";
    let url = DatabaseUrl::parse(text).unwrap();
    assert!(!format!("{url} {url:?}").contains("hunter2"));
    assert_eq!(DatabaseUrl::configured(text), Err(UrlError::PasswordInFile));
    let query = DatabaseUrl::configured("postgres://u@h/d?password=hunter2");
    assert_eq!(query, Err(UrlError::PasswordInFile));
    for bad in ["postgres://u:hunter2@h:x/d", "postgres://u:hunter2@h/d?hunter3=2", "hunter2"] {
        let error = DatabaseUrl::parse(bad).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[test]
fn what_is_no_address_is_refused() {
    for (text, error) in [
        ("mysql://h/d", UrlError::Scheme),
        ("postgres://a,b/d", UrlError::SeveralHosts),
        ("postgres://h:0/d", UrlError::Part { part: "port" }),
        ("postgres://h/%zz", UrlError::Part { part: "database" }),
        ("postgres://h/d?sslmode=maybe", UrlError::Part { part: "sslmode" }),
        ("postgres://h/d?options=x", UrlError::Parameter { name: "options".to_owned() }),
    ] {
        assert_eq!(DatabaseUrl::parse(text), Err(error), "{text}");
    }
}
