//! What the ledger's authors ask for.

use harness_core::{
    Command, TaskId,
    command::{Add, Edit, Release, Remove, Retry},
};

use super::{
    super::{
        request::{Answer, Request},
        server::Host,
    },
    apply,
};
use crate::process::ancestry::Peer;

pub(super) async fn add(host: &Host, peer: &Peer, request: &Request) -> Answer {
    let title = request.text("title")?.ok_or_else(|| "title is required".to_owned())?;
    let id = match request.text("id")? {
        Some(id) => Some(TaskId::parse(&id).map_err(|why| format!("id: {why}"))?),
        None => None,
    };
    let mut fields = fields(request, id.clone().unwrap_or_else(|| TaskId::numbered(0)))?;
    fields.by = Some(peer.author());
    apply(host, Command::Add(Add { id, title, fields })).await
}

pub(super) async fn edit(host: &Host, peer: &Peer, request: &Request) -> Answer {
    let fields = fields(request, request.task()?)?;
    let (title, by) = (request.text("title")?, Some(peer.author()));
    apply(host, Command::Edit(Edit { title, by, ..fields })).await
}

pub(super) async fn remove(host: &Host, request: &Request) -> Answer {
    apply(host, Command::Remove(Remove { task: request.task()? })).await
}

pub(super) async fn retry(host: &Host, request: &Request) -> Answer {
    let reason = request.text("reason")?.unwrap_or_else(|| "retried by hand".to_owned());
    apply(host, Command::Retry(Retry { task: request.task()?, reason })).await
}

/// What an agent of this process works on is not taken from under it: the next task would begin in a
/// tree that is full of this one.
pub(super) async fn release(host: &Host, request: &Request) -> Answer {
    let task = request.task()?;
    if host.desk.works_on(&task) {
        return Err(format!(
            "Task {task} is being worked on by this session: `harness task fail` ends the attempt, \
             `harness abort` the session"
        )
        .into());
    }
    let reason = request.text("reason")?.unwrap_or_else(|| "released by hand".to_owned());
    apply(host, Command::Release(Release { task, holder: None, reason })).await
}

fn fields(request: &Request, task: TaskId) -> Result<Edit, String> {
    let depends_on = match request.texts("depends_on")? {
        None => None,
        Some(ids) => Some(
            ids.iter()
                .map(|id| TaskId::parse(id).map_err(|why| format!("depends_on: {why}")))
                .collect::<Result<_, _>>()?,
        ),
    };
    Ok(Edit {
        task,
        title: None,
        priority: request.text("priority")?,
        depends_on,
        validation_command: request.text("validate")?,
        validation_timeout_seconds: request.number("timeout")?,
        attempt_timeout_seconds: request.number("attempt_timeout")?,
        max_attempts: request.small("max_attempts")?,
        cleanup: request.text("cleanup")?,
        instructions: request.text("instructions")?,
        role: request.text("role")?,
        phase: request.text("phase")?,
        by: None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::{super::super::wire, *};

    #[test]
    fn every_field_of_an_edit_gets_through() {
        let text = |text: &str| Some(text.to_owned());
        let task = TaskId::numbered(7);
        let edit = Edit {
            task: task.clone(),
            title: None,
            priority: text("P0"),
            depends_on: Some(vec![TaskId::numbered(1)]),
            validation_command: text(""),
            validation_timeout_seconds: Some(1),
            attempt_timeout_seconds: Some(2),
            max_attempts: Some(3),
            cleanup: text("c"),
            instructions: text("i"),
            role: text("r"),
            phase: text("p"),
            by: None,
        };
        for sent in [edit, Edit::nothing(task.clone())] {
            let line = wire::request(&Command::Edit(sent.clone())).unwrap().to_string();
            let request = Request::parse(line.as_bytes(), &Default::default()).unwrap();
            assert_eq!(request.command, "task_edit");
            assert_eq!(fields(&request, request.task().unwrap()).unwrap(), sent);
        }
    }
}
