//! The process that drives a run, and whether it is still alive.

use harness_core::run::Owner;

use crate::process::life::{Here, Life, here, life};

/// Returns the identity of this process. Its start time consists of the machine's clock ticks, the
/// boot id and the pid namespace.
pub fn this_process() -> Owner {
    owner(here(), std::process::id())
}

/// Returns whether the process is known to have ended: it ran on this machine, and its pid is
/// unused or belongs to another process now. A process elsewhere is never known to be gone.
pub fn is_gone(owner: &Owner) -> bool {
    gone(owner, here(), life)
}

fn owner(here: &Here, pid: u32) -> Owner {
    let ticks = here.start_ticks.map(|ticks| ticks.to_string());
    let parts = [ticks.as_ref(), here.boot_id.as_ref(), here.pid_namespace.as_ref()];
    let started = parts.map(|part| part.map_or("-", String::as_str)).join("/");
    Owner { host: host(here), pid, started }
}

/// Returns the host name without spaces, because a space would end it in the stored form.
fn host(here: &Here) -> String {
    let host: String = here.host.chars().map(|c| if c.is_whitespace() { '-' } else { c }).collect();
    if host.is_empty() { "-".to_owned() } else { host }
}

fn gone(owner: &Owner, here: &Here, life: impl FnOnce(u32) -> Life) -> bool {
    if owner.host != host(here) {
        return false;
    }
    let mut parts = owner.started.splitn(3, '/').map(|part| Some(part).filter(|p| *p != "-"));
    let mut part = || parts.next().flatten();
    let (ticks, boot_id, pid_namespace) = (part(), part(), part());
    if differ(boot_id, here.boot_id.as_deref()) {
        return true;
    }
    // A pid of another namespace has no meaning here.
    if differ(pid_namespace, here.pid_namespace.as_deref()) {
        return false;
    }
    match life(owner.pid) {
        Life::Dead => true,
        Life::Alive { start_ticks: Some(now) } => ticks.is_some_and(|then| then != now.to_string()),
        Life::Alive { start_ticks: None } => false,
    }
}

/// Unknown values do not differ.
fn differ(a: Option<&str>, b: Option<&str>) -> bool {
    a.is_some() && b.is_some() && a != b
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Here {
        Here {
            host: "a host".into(),
            boot_id: Some("boot".into()),
            pid_namespace: Some("pid:[1]".into()),
            start_ticks: Some(100),
        }
    }

    #[test]
    fn a_process_is_known_by_where_and_when_it_started() {
        let me = owner(&machine(), 7);
        assert_eq!(me.to_string(), "a-host 7 100/boot/pid:[1]");
        assert_eq!(Owner::parse(&me.to_string()), Some(me.clone()));
        let alive = |start_ticks| move |_| Life::Alive { start_ticks };

        assert!(!gone(&me, &machine(), alive(Some(100))));
        assert!(!gone(&me, &machine(), alive(None)));
        assert!(gone(&me, &machine(), alive(Some(101))));
        assert!(gone(&me, &machine(), |_| Life::Dead));
        let rebooted = Here { boot_id: Some("later".into()), ..machine() };
        assert!(gone(&me, &rebooted, alive(Some(100))));
        let elsewhere = Here { host: "b".into(), ..rebooted };
        assert!(!gone(&me, &elsewhere, |_| Life::Dead));
        let outside = Here { pid_namespace: Some("pid:[2]".into()), ..machine() };
        assert!(!gone(&me, &outside, |_| Life::Dead));
        let unknown = Owner { started: "-/-/-".into(), ..me.clone() };
        assert!(!gone(&unknown, &machine(), alive(Some(100))));
        let of_a_hand = Owner { started: String::new(), ..me };
        assert!(gone(&of_a_hand, &machine(), |_| Life::Dead));
    }

    #[test]
    fn a_child_is_gone_when_it_has_ended() {
        assert!(!is_gone(&this_process()));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let owner = Owner { pid: child.id(), started: "-/-/-".into(), ..this_process() };
        child.wait().unwrap();
        assert!(is_gone(&owner));
        // A process that has our pid now did not start when we did.
        if cfg!(target_os = "linux") {
            let me = this_process();
            let (_, place) = me.started.split_once('/').unwrap();
            let earlier = Owner { started: format!("1/{place}"), ..me.clone() };
            assert!(is_gone(&earlier));
        }
    }
}
