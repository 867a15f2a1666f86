//! Carries out what the person asked for: each time one request of the protocol, through the host or
//! on the files, as the command of the same name does.

use std::{io, sync::mpsc::Receiver, thread};

use harness::{
    Client,
    client::Caller,
    process::Redactor,
    protocol::{Answer, Refused, Request},
    shell::Cancel,
    workspace::Workspace as _,
};
use harness_core::{
    Holder,
    role::{Author, Operation},
};

use super::{Common, reader::Asked};
use crate::{
    commands::top::state::{Input, Notice, Wish},
    failure::{Failure, Result},
    interrupt::Interrupt,
    invocation::Invocation,
    render::{ColorWhen, Out},
    repository::{short, workspace},
    root::StateRoot,
};

pub(super) fn start(common: Common, wishes: Receiver<Wish>) -> io::Result<()> {
    thread::Builder::new().name("hands".to_owned()).spawn(move || {
        for wish in wishes {
            let notice = match carry_out(&common, wish) {
                Ok(text) => Notice::Said(text),
                Err(failure) => Notice::Failed(failure.error),
            };
            common.tell(Input::Notice(notice));
            _ = common.asked.send(Asked::Board);
        }
    })?;
    Ok(())
}

/// A caller that prints nothing, because the screen is not its own.
struct Silent<'a> {
    invocation: &'a Invocation,
    root: &'a StateRoot,
}

impl Caller for Silent<'_> {
    fn secrets(&self) -> Redactor {
        self.invocation.secrets(self.root)
    }

    fn permit(&self, operation: Operation, _: Option<&Holder>) -> Result<(), Refused> {
        Ok(self.invocation.permit(self.root, operation)?)
    }

    fn author(&self) -> Option<Author> {
        self.invocation.author(self.root)
    }
}

fn carry_out(common: &Common, wish: Wish) -> Result<String> {
    let Common { env, root, .. } = common;
    let invocation = Invocation {
        out: Out::new(ColorWhen::Never, env),
        env: env.clone(),
        plain: true,
        interrupt: Interrupt::Request(Cancel::new()?),
    };
    match wish {
        Wish::Quit => Ok(String::new()),
        Wish::Ask(request, said) => ask(&invocation, root, *request, said),
        Wish::Restore { rescue, branch } => {
            let task = rescue.split_once('/').map(|(task, _)| task.to_owned());
            invocation.permit_rescue(root, task.as_deref())?;
            let git = workspace(env, root, root.path())?;
            let found = git.rescues(None)?.into_iter().rfind(|found| short(found) == rescue);
            let found =
                found.ok_or_else(|| Failure::error(format!("there is no rescue {rescue}")))?;
            git.branch_of_rescue(&found, &branch)?;
            Ok(format!("{branch} holds {rescue}"))
        }
    }
}

fn ask(
    invocation: &Invocation,
    root: &StateRoot,
    request: Request,
    said: String,
) -> Result<String> {
    let mut options = invocation.client_options(root)?;
    // A person is at the keyboard, and no daemon is started for one key.
    (options.speaks_as, options.launch) = (None, None);
    let mut client = Client::of(root.path(), options, Silent { invocation, root })?;
    Ok(match client.ask(request)? {
        Answer::Woken { woken: 0 } => return Err(Failure::error("no run waits for a usage limit")),
        Answer::Sent { received: Some(0) } => {
            return Err(Failure::error("no agent that can read messages is at work"));
        }
        Answer::Budget(budget) => {
            let most = [
                budget.max_cost_usd.map(|most| format!("${most:.2}")),
                budget.max_tokens.map(|most| format!("{most} tokens")),
                budget.max_duration_seconds.map(|s| crate::task_line::Span(s).to_string()),
            ];
            let most: Vec<String> = most.into_iter().flatten().collect();
            format!("the budget is {}", most.join(", "))
        }
        _ => said,
    })
}
