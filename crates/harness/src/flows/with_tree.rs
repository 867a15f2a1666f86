//! Adds the current tree to the checkpoints that an agent reports, as the command line does. A
//! later session can then see whether the work is still there.

use std::{pin::Pin, sync::Arc};

use harness::{
    Commit, Committing, Flushed, Ports,
    core::Command,
    workspace::{Workspace, tree_for_checkpoint},
};

struct WithTree {
    commit: Arc<dyn Commit>,
    workspace: Arc<dyn Workspace>,
}

/// Returns the ports of an attempt in `workspace`.
pub(super) fn ports(ports: &Ports, workspace: Arc<dyn Workspace>) -> Ports {
    let commit = Arc::clone(&ports.commit);
    Ports { commit: Arc::new(WithTree { commit, workspace }), ..ports.clone() }
}

impl Commit for WithTree {
    fn commit(&self, command: Command) -> Pin<Box<dyn Future<Output = Committing> + Send + '_>> {
        let Command::Checkpoint(mut checkpoint) = command else {
            return self.commit.commit(command);
        };
        Box::pin(async move {
            checkpoint.tree = tree_for_checkpoint(Arc::clone(&self.workspace)).await;
            self.commit.commit(Command::Checkpoint(checkpoint)).await
        })
    }

    fn flush(&self) -> Flushed<'_> {
        self.commit.flush()
    }
}
