//! A daemon in this process, with clients on its real socket. The core's `decide` is the reference
//! for their answers. A seed decides what the clients do: `HOST_SEED=N` replays one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod served;

use std::{
    env,
    path::Path,
    thread,
    time::{SystemTime, UNIX_EPOCH},
};

use harness::{
    client::{ANSWER_WITHIN, ClientError, Connection},
    protocol::{
        Answer, Request, StateView, TaskCheckpoint, TaskClaim, TaskComplete, TaskFail, TaskReason,
        TaskRenew,
    },
};
use harness_core::{
    Command, Epoch, Holder, Ledger, Reply, TaskId, Timestamp, WorkerId,
    command::{
        Add, AddCheckpoint, Attempts, Authority, Claim, ClaimChoice, Complete, Edit, Fail, Place,
        Proof, Release, Remove, Renew, Retry, Unchecked,
    },
    decide,
    machine::judge::ClientWork,
    task::{Status, Via},
};
use harness_sim::random::Random;
use serde_json::{Value, json};
use served::{Kind, LEASE, Served};

fn seed() -> u64 {
    let given = env::var("HOST_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| {
        u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
    });
    println!("HOST_SEED={seed}");
    seed
}

fn snapshot(root: &Path) -> Ledger {
    harness::Project::open(root).unwrap().snapshot().unwrap()
}

/// Returns one random request of a client, as the corresponding command.
fn anything(random: &mut Random, workers: usize, tasks: usize) -> Command {
    let worker = WorkerId::parse(&format!("w{}", random.below(workers))).unwrap();
    let task = TaskId::parse(&format!("t{}", random.below(tasks))).unwrap();
    let epoch = random.percent(10).then(|| Epoch(random.next() % 20));
    let holder = Holder { task: task.clone(), worker: worker.clone(), epoch };
    match random.weighted(&[10, 30, 6, 6, 22, 8, 6, 4, 4, 4]) {
        0 => {
            let fields = Edit {
                validation_command: match random.below(4) {
                    0 => Some("true".to_owned()),
                    1 => Some("false".to_owned()),
                    _ => None,
                },
                depends_on: random
                    .percent(40)
                    .then(|| vec![TaskId::parse(&format!("t{}", random.below(tasks))).unwrap()]),
                attempt_timeout_seconds: random.percent(50).then(|| 1 + random.next() % 30),
                role: random.percent(30).then(|| "r".to_owned()),
                ..Edit::nothing(task.clone())
            };
            Command::Add(Add { id: Some(task), title: "a title".to_owned(), fields })
        }
        1 => Command::Claim(Claim {
            worker,
            via: Via::Client,
            role: random.percent(30).then(|| if random.percent(50) { "r" } else { "q" }.to_owned()),
            labels: Vec::new(),
            choice: ClaimChoice::Next,
            lease_seconds: harness_core::lease::CLIENT_LEASE_SECONDS,
            place: Place::default(),
            parallel: None,
        }),
        2 => Command::Checkpoint(AddCheckpoint {
            holder,
            step: 1,
            total: 2,
            description: "half".to_owned(),
            tree: None,
            lease_seconds: LEASE,
        }),
        3 => Command::Renew(Renew::new(holder, LEASE)),
        4 => Command::Complete(Complete {
            holder,
            authority: if random.percent(10) { Authority::Force } else { Authority::Holder },
            proof: Proof::Word,
            unchecked: Unchecked::Allowed,
            commit: None,
        }),
        5 => Command::Fail(Fail {
            holder,
            category: harness_core::Category::TaskExec,
            message: "no".to_owned(),
            attempts: Attempts::One,
            rolled_back_to: None,
        }),
        6 => Command::Release(Release { task, holder: None, reason: "because".to_owned() }),
        7 => Command::Retry(Retry { task, reason: "because".to_owned() }),
        8 => Command::Remove(Remove { task }),
        _ => Command::Edit(Edit { priority: Some("P0".to_owned()), ..Edit::nothing(task) }),
    }
}

/// Returns the expected answer of the client, and applies the change to `ledger`.
fn expected(ledger: &mut Ledger, now: Timestamp, command: &Command) -> Result<Value, String> {
    let mut command = command.clone();
    if let Command::Complete(complete) = &mut command
        && let Some(task) = ledger.task(&complete.holder.task)
        && task.status() != Status::Completed
        && let Some(check) = task.check()
    {
        let held = task.status() == Status::InProgress
            && task.claimed_by() == Some(&complete.holder.worker)
            && complete.holder.epoch.is_none_or(|epoch| task.epoch == Some(epoch));
        if held || complete.authority == Authority::Force {
            if check == "false" {
                return Err(format!("Task {}: the check failed (exit code 1)", task.id));
            }
            complete.proof = Proof::Passed { command: check.to_owned() };
        }
    }
    let change = decide(ledger, now, &command).map_err(|refusal| refusal.to_string())?;
    ledger.put_in(&change);
    Ok(match change.reply {
        Reply::Task(task) => json!({ "task_id": task }),
        reply @ (Reply::Claimed(_) | Reply::NothingToClaim) => {
            json!(Answer::try_from(reply).unwrap())
        }
        Reply::Lease { task, expires_at } => {
            json!({ "task_id": task, "lease_expires_at": expires_at })
        }
        Reply::Failed { task, retryable } => json!({ "task_id": task, "retryable": retryable }),
        other => panic!("{other:?}"),
    })
}

/// Returns the request that a client sends for a command.
fn request(command: &Command) -> Value {
    let reason = |task_id: &TaskId, reason: &String| TaskReason {
        task_id: task_id.clone(),
        reason: Some(reason.clone()),
    };
    json!(match command.clone() {
        Command::Add(add) => Request::TaskAdd(add),
        Command::Edit(edit) => Request::TaskEdit(edit),
        Command::Claim(of) => {
            Request::TaskClaim(TaskClaim { role: of.role, ..TaskClaim::any(of.worker) })
        }
        Command::Checkpoint(AddCheckpoint { holder, step, total, description, .. }) => {
            Request::TaskCheckpoint(TaskCheckpoint { holder, step, total, description })
        }
        Command::Renew(of) => {
            Request::TaskRenew(TaskRenew { holder: of.holder, lease_seconds: None })
        }
        Command::Complete(Complete { holder, authority, .. }) => {
            Request::TaskComplete(TaskComplete { holder, authority, work: ClientWork::Left })
        }
        Command::Fail(Fail { holder, category, message, .. }) => {
            Request::TaskFail(TaskFail { holder, category, message })
        }
        Command::Release(of) => Request::TaskRelease(reason(&of.task, &of.reason)),
        Command::Retry(of) => Request::TaskRetry(reason(&of.task, &of.reason)),
        Command::Remove(of) => Request::TaskRemove { task_id: of.task },
        other => panic!("{other:?}"),
    })
}

fn state(ledger: &Ledger) -> Value {
    json!(StateView::from(ledger))
}

fn ask(client: &mut Connection, request: &Value) -> Result<Value, String> {
    match client.ask(request, Some(ANSWER_WITHIN)) {
        Ok(data) => Ok(data),
        Err(ClientError::Refused(refused)) => Err(refused.message),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn each_of_several_clients_is_told_what_the_core_decides() {
    let mut random = Random::new(seed());
    let served = Served::start(Kind::DaemonOfLedger);
    let mut model = snapshot(served.root());
    let mut clients: Vec<_> = (0..4).map(|_| served.client()).collect();
    for step in 0..600 {
        if random.percent(10) {
            let seconds = i64::try_from(random.next() % 40).unwrap();
            served.pass(seconds);
        }
        let at = random.below(clients.len());
        if random.percent(3) {
            clients[at] = served.client();
        }
        let command = anything(&mut random, 4, 12);
        let request = request(&command);
        let answer = ask(&mut clients[at], &request);
        let wanted = expected(&mut model, served.now(), &command);
        assert_eq!(answer, wanted, "step {step}: {request}");
        if step % 25 == 0 {
            let answer = ask(&mut clients[at], &json!({ "command": "get_state" }));
            assert_eq!(answer, Ok(state(&model)), "step {step}");
        }
    }
    assert_eq!(state(&snapshot(served.root())), state(&model));
}

/// The order of concurrent requests is known only afterwards: it is the one in which the writer
/// committed them. Deciding them again in that order must give the same answers and the same file.
#[test]
fn clients_at_once_are_told_what_the_core_decides_in_some_order() {
    let seed = seed();
    let served = Served::start(Kind::DaemonOfLedger);
    let mut model = snapshot(served.root());
    let workers = 12;
    let told: Vec<Vec<(Command, Result<Value, String>)>> = thread::scope(|scope| {
        let served = &served;
        let working: Vec<_> = (0..workers)
            .map(|n| {
                scope.spawn(move || {
                    let mut random = Random::new(seed.wrapping_add(n));
                    let mut client = served.client();
                    let mut told = Vec::new();
                    for _ in 0..60 {
                        if random.percent(10) {
                            served.pass(7);
                        }
                        if random.percent(10) {
                            ask(&mut client, &json!({ "command": "get_state" })).unwrap();
                        }
                        let command = anything(&mut random, 6, 20);
                        let answer = ask(&mut client, &request(&command));
                        told.push((command, answer));
                    }
                    told
                })
            })
            .collect();
        working.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let history = served.history().lock().unwrap();
    let mut completed = Vec::new();
    for (now, commands, replies) in history.iter() {
        for (command, reply) in commands.iter().zip(replies) {
            let change = decide(&model, *now, command);
            assert_eq!(&change.as_ref().map(|c| c.reply.clone()).map_err(Clone::clone), reply);
            let Ok(change) = change else { continue };
            if let (Command::Complete(of), false) = (command, change.rows.is_empty()) {
                completed.push((of.holder.task.clone(), of.holder.worker.clone()));
            }
            model.put_in(&change);
        }
    }
    assert_eq!(state(&snapshot(served.root())), state(&model));
    // A client that got the answer "completed" finds the task among the completed ones.
    for (command, answer) in told.into_iter().flatten() {
        if let (Command::Complete(of), Ok(_)) = (&command, &answer)
            && of.authority == Authority::Holder
        {
            let (task, worker) = (&of.holder.task, &of.holder.worker);
            assert!(completed.iter().any(|(t, w)| t == task && w == worker), "{task} {worker}");
        }
    }
}

#[test]
fn a_waiting_claim_is_answered_when_its_time_is_up() {
    let served = Served::start(Kind::DaemonOfLedger);
    let claim = json!({ "command": "task_claim", "worker_id": "w", "wait_ms": 1 });
    assert_eq!(ask(&mut served.client(), &claim), Ok(json!({ "task": null })));
}
