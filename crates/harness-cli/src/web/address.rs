//! The names of this server in `Host` and `Origin`.
//!
//! A page of another site can give its own name our address (DNS rebinding). Its requests then
//! reach us with that name in `Host`, so every other name is refused.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The addresses that the server listens on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    port: u16,
    listens: Vec<IpAddr>,
}

impl Names {
    pub(super) fn of(bound: &[SocketAddr]) -> Self {
        let port = bound.first().map_or(0, SocketAddr::port);
        Self { port, listens: bound.iter().map(SocketAddr::ip).collect() }
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the value of `Host` in printed addresses.
    pub(super) fn host(&self) -> String {
        let address = self.listens.iter().find(|address| !address.is_unspecified());
        match address.unwrap_or(&IpAddr::from([127, 0, 0, 1])) {
            IpAddr::V4(address) => format!("{address}:{}", self.port),
            IpAddr::V6(address) => format!("[{address}]:{}", self.port),
        }
    }

    /// Returns whether a value of `Host` names this server and its port.
    pub(super) fn is_ours(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.ends_with(']') => (name, port),
            _ => (host, "80"),
        };
        port.parse() == Ok(self.port) && self.is_name(name)
    }

    /// Returns whether `Origin` is a page of this server, reached under the name in `Host`.
    pub(super) fn is_own_origin(&self, origin: &str, host: &str) -> bool {
        origin.strip_prefix("http://").is_some_and(|name| name.eq_ignore_ascii_case(host))
    }

    fn is_name(&self, name: &str) -> bool {
        if name.eq_ignore_ascii_case("localhost") {
            return self
                .listens
                .iter()
                .any(|address| address.is_loopback() || address.is_unspecified());
        }
        let inner = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let address = match inner {
            Some(inner) => inner.parse::<Ipv6Addr>().map(IpAddr::from),
            None => name.parse::<Ipv4Addr>().map(IpAddr::from),
        };
        let Ok(address) = address else { return false };
        // A server on all addresses cannot list them. Rebinding needs a name, and this is none.
        let on_all = self.listens.iter().any(|listens| listens.is_unspecified());
        on_all || self.listens.contains(&address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(addresses: &[&str]) -> Names {
        let bound: Vec<SocketAddr> = addresses.iter().map(|a| a.parse().unwrap()).collect();
        Names::of(&bound)
    }

    #[test]
    fn only_own_names_with_the_own_port_are_ours() {
        let ours = names(&["127.0.0.1:8080", "[::1]:8080"]);
        for (host, is_ours) in [
            ("127.0.0.1:8080", true),
            ("localhost:8080", true),
            ("LOCALHOST:8080", true),
            ("[::1]:8080", true),
            ("127.0.0.1", false),
            ("127.0.0.1:80", false),
            ("127.0.0.1:8081", false),
            ("127.0.0.2:8080", false),
            ("::1:8080", false),
            ("evil.example:8080", false),
            ("127.0.0.1.evil.example:8080", false),
            ("localhost.:8080", false),
            ("[::1]", false),
            ("", false),
            (":8080", false),
        ] {
            assert_eq!(ours.is_ours(host), is_ours, "{host}");
        }
        assert_eq!(ours.host(), "127.0.0.1:8080");
        assert!(names(&["127.0.0.1:80"]).is_ours("localhost"));
    }

    #[test]
    fn a_server_on_all_addresses_accepts_numbers_and_no_names() {
        let ours = names(&["0.0.0.0:8080"]);
        assert!(ours.is_ours("192.168.1.5:8080") && ours.is_ours("localhost:8080"));
        assert!(!ours.is_ours("evil.example:8080") && !ours.is_ours("192.168.1.5:81"));
    }

    #[test]
    fn an_origin_is_the_host_over_http() {
        let ours = names(&["127.0.0.1:8080"]);
        assert!(ours.is_own_origin("http://127.0.0.1:8080", "127.0.0.1:8080"));
        for origin in
            ["http://localhost:8080", "https://127.0.0.1:8080", "null", "http://127.0.0.1:3000"]
        {
            assert!(!ours.is_own_origin(origin, "127.0.0.1:8080"), "{origin}");
        }
    }
}
